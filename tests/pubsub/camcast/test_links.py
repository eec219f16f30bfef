"""Communities stay in touch: dead super-processes are replaced, load is spread, memory is bounded."""

from __future__ import annotations

from overlay.virtual.stage import StageConfig
from pubsub.camcast.parameters import Parameters
from tests.pubsub.camcast.troupe import Actor, Troupe


def super_entries(actor: Actor, topic: str) -> list[bytes]:
    tables = actor.process.communities[topic].super_tables.linked()
    return [contact.id for table in tables for contact in table.contacts]


def test_crashed_super_processes_are_replaced_everywhere() -> None:
    troupe = Troupe(1)
    supers = troupe.add_many(20, "/soccer")
    italians = troupe.add_many(30, "/soccer/italy")
    troupe.stage.run_for(10)
    troupe.crash(*supers[:14])
    dead = {actor.contact.id for actor in supers[:14]}

    def all_live() -> bool:
        return all(
            super_entries(a, "/soccer/italy") and not dead & set(super_entries(a, "/soccer/italy"))
            for a in italians
        )

    troupe.wait(all_live, 400)
    event = italians[3].publish("/soccer/italy")
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, "/soccer")) == 6


def test_a_crashed_super_community_that_comes_back_is_linked_again() -> None:
    troupe = Troupe(2)
    supers = troupe.add_many(5, "/soccer")
    italians = troupe.add_many(10, "/soccer/italy")
    troupe.stage.run_for(10)
    troupe.crash(*supers)
    troupe.stage.run_for(60)
    newcomers = troupe.add_many(5, "/soccer")
    troupe.stage.run_for(60)
    event = italians[0].publish("/soccer/italy")
    troupe.stage.run_for(5)
    assert troupe.receivers(event, "/soccer") == newcomers


def test_a_publisher_whose_super_process_has_just_died_sends_to_another() -> None:
    for seed in range(10):
        troupe = Troupe(seed, parameters=Parameters(link_interval=1000, lease=1))
        supers = troupe.add_many(3, "/soccer")
        publisher = troupe.add("/soccer/italy")
        troupe.stage.run_for(10)
        troupe.crash(*supers[:2])
        event = publisher.publish("/soccer/italy")
        troupe.stage.run_for(20)
        assert troupe.receivers(event, "/soccer") == supers[2:], f"seed {seed}"


def test_tables_stay_within_the_papers_bound_whatever_the_number_of_subtopics() -> None:
    troupe = Troupe(3)
    top = troupe.add_many(10, "/soccer")
    for number in range(12):
        troupe.add_many(4, f"/soccer/team{number}")
    troupe.stage.run_for(30)
    parameters = Parameters()
    for actor in troupe.actors.values():
        for community in actor.process.communities.values():
            supers = len(community.super_tables)
            bound = parameters.fanout(community.size) + parameters.z
            assert len(community.table) + supers <= bound
    for actor in top:
        known = {contact.id for contact in actor.process.communities["/soccer"].table}
        assert known <= {other.contact.id for other in top}


def test_the_upward_load_is_spread_over_the_super_community() -> None:
    troupe = Troupe(4)
    supers = troupe.add_many(10, "/soccer")
    italians = troupe.add_many(60, "/soccer/italy")
    troupe.stage.run_for(30)
    for number in range(100):
        italians[number % 60].publish("/soccer/italy")
        troupe.stage.run_for(0.5)
    loads = [troupe.upward.get((actor.contact.id, "/soccer"), 0) for actor in supers]
    assert max(loads) / (sum(loads) / len(loads)) < 3, loads


def test_super_tables_fill_up_under_loss_and_duplication() -> None:
    for seed in range(3):
        troupe = Troupe(seed, StageConfig(loss=0.15, duplicate=0.1, check_wire=True))
        troupe.add_many(8, "/soccer")
        italians = troupe.add_many(20, "/soccer/italy")
        troupe.stage.run_for(60)
        assert all(super_entries(actor, "/soccer/italy") for actor in italians), f"seed {seed}"


def test_a_healed_partition_is_linked_again() -> None:
    troupe = Troupe(5)
    supers = troupe.add_many(6, "/soccer")
    italians = troupe.add_many(12, "/soccer/italy")
    troupe.stage.run_for(10)
    troupe.stage.partition([actor.contact for actor in supers])
    troupe.stage.run_for(60)
    troupe.stage.heal()
    troupe.stage.run_for(60)
    event = italians[5].publish("/soccer/italy")
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, "/soccer")) == 6
    assert len(troupe.receivers(event, "/soccer/italy")) == 12


def test_no_parasite_and_full_delivery_under_churn() -> None:
    for seed in range(2):
        troupe = Troupe(seed, StageConfig(duplicate=0.05), Parameters(lease=5))
        troupe.add_many(5, "/")
        troupe.add_many(10, "/soccer")
        troupe.add_many(40, "/soccer/italy")
        random = troupe.stage.context(next(iter(troupe.actors.values())).contact, "churn").random
        troupe.stage.run_for(10)
        for _ in range(40):
            _churn(troupe, random.choice)
            publisher = random.choice(troupe.members("/soccer/italy"))
            publisher.publish("/soccer/italy")
            troupe.stage.run_for(1)
        troupe.stage.run_for(30)
        event = troupe.members("/soccer/italy")[0].publish("/soccer/italy")
        troupe.stage.run_for(5)
        for topic in ("/", "/soccer", "/soccer/italy"):
            assert len(troupe.receivers(event, topic)) == len(troupe.members(topic)), f"seed {seed}"


def _churn(troupe: Troupe, choice) -> None:  # type: ignore[no-untyped-def]
    """One joins, one leaves and stays up in another topic, one crashes; no community dies out."""
    topic = choice(("/", "/soccer", "/soccer/italy"))
    if len(troupe.members(topic)) > 4:
        leaver = choice(troupe.members(topic))
        if choice((True, False)):
            leaver.process.leave(topic)
            leaver.join("/chess")
        else:
            troupe.crash(leaver)
    troupe.add(choice(("/", "/soccer", "/soccer/italy")))
