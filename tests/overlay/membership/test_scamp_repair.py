"""SCAMP holds together: isolation, crashes, partitions, loss, and thousands of joins and leaves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from overlay.contact import Contact
from overlay.membership.config import ScampConfig
from overlay.membership.scamp.messages import Echo, Heartbeat, ScampSubscribe
from overlay.virtual.stage import StageConfig
from tests.overlay.membership.community import (
    ScampCommunity,
    coverage,
    in_degrees,
    is_connected,
    is_strongly_connected,
    reached,
    view_sizes,
)


def community_of(
    count: int, seed: int, network: StageConfig | None = None, config: ScampConfig | None = None
) -> ScampCommunity:
    community = ScampCommunity(seed, config, network=network)
    community.grow(count, interval=0.1)
    community.stage.run_for(60)
    return community


def dead_arcs(community: ScampCommunity) -> int:
    graph = community.graph
    return sum(peer not in graph for view in graph.values() for peer in view)


def reliability(community: ScampCommunity, runs: int = 50) -> float:
    """How often gossip with fanout floor(ln N + 5) reaches everyone."""
    graph, fanout = community.graph, int(math.log(len(community.members)) + 5)
    source = community.random
    hits = sum(
        reached(graph, community.anyone().id, fanout, source) == len(graph) for _ in range(runs)
    )
    return hits / runs


def churn(community: ScampCommunity, changes: int, per_second: float) -> None:
    """Joins and leaves in turn, many under way at a time; half of the leavers crash."""
    for _ in range(changes // 2):
        community.join()
        community.stage.run_for(1 / per_second)
        leave = community.leave if community.random.random() < 0.5 else community.crash
        leave(community.anyone())
        community.stage.run_for(1 / per_second)


def test_no_partition_after_a_thousand_joins_and_leaves() -> None:
    community = community_of(100, seed=21)
    churn(community, changes=1000, per_second=10)
    community.stage.run_for(90)
    assert is_connected(community.graph)
    assert is_strongly_connected(community.graph)
    assert reliability(community) >= 0.96


@pytest.mark.sweep
def test_no_partition_after_ten_thousand_joins_and_leaves_among_a_thousand() -> None:
    community = ScampCommunity(22)
    community.grow(1000, interval=0.02)
    community.stage.run_for(30)
    churn(community, changes=10_000, per_second=50)
    community.stage.run_for(90)
    assert len(community.members) == 1000
    assert is_connected(community.graph)
    assert is_strongly_connected(community.graph)
    assert coverage(community.graph, 4, runs=20, seed=1) > 0.962
    assert reliability(community) >= 0.96


@pytest.mark.parametrize("seed", [23, 24])
def test_crashes_of_a_third_are_repaired(seed: int) -> None:
    community = community_of(200, seed)
    before = view_sizes(community.graph)[0]
    community.crash_some(0.3)
    assert dead_arcs(community) > 0.2 * before * len(community.members)
    community.stage.run_for(120)
    assert dead_arcs(community) <= 0.02 * before * len(community.members)
    assert view_sizes(community.graph)[0] > 0.8 * before
    assert is_strongly_connected(community.graph)
    assert min(in_degrees(community.graph)) >= 3


def test_a_suspected_member_is_removed_at_once_and_replaced() -> None:
    community = community_of(60, seed=25)
    contact = community.anyone()
    member = community.members[contact]
    size, victim = len(member.table), member.table[0]
    community.crash(victim)
    member.suspect(victim.id)
    assert victim not in member.table
    community.stage.run_for(10)
    assert len(member.table) >= size


def test_an_isolated_member_subscribes_again() -> None:
    """All who held it have crashed, and so have all that it held."""
    community = community_of(40, seed=26)
    lone = community.anyone()
    member = community.members[lone]
    for contact in list(community.members):
        knows = contact in member.table or lone in community.members[contact].table
        if knows and contact != lone:
            community.crash(contact)
    assert len(community.members) > 5
    assert reached(community.graph, lone.id, None, community.random) == 1
    community.stage.run_for(120)
    assert is_strongly_connected(community.graph)


def test_a_first_participant_that_overlooked_the_others_finds_them() -> None:
    """Two processes each believe they are the first: the directory did not know the other yet."""
    community = ScampCommunity(27)
    first = community.join()
    community.directory.withdraw(first)
    second = community.join()
    assert [community.listeners[contact].has_joined for contact in (first, second)] == [1, 1]
    community.directory.announce(first)
    community.stage.run_for(15)
    assert is_strongly_connected(community.graph)
    assert community.members[first].size == 2


def test_a_newcomer_that_is_given_only_the_crashed_asks_again_before_it_takes_itself_for_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The directory lists the crashed for a while longer."""
    community = community_of(6, seed=28)
    crashed = tuple(community.members)[:3]
    for contact in crashed:
        community.crash(contact)
    right = community.directory.sample
    answers = [crashed]

    def sample(me: Contact, count: int) -> tuple[Contact, ...]:
        return answers.pop() if answers else right(me, count)

    monkeypatch.setattr(community.directory, "sample", sample)
    newcomer = community.join()
    while not community.listeners[newcomer].has_joined:
        community.stage.run_for(0.1)
    assert community.members[newcomer].table


@pytest.mark.parametrize("seed", [30, 31])
def test_the_halves_of_a_partition_hold_each_other_again_within_seconds(seed: int) -> None:
    """Without any help of a directory: each half had taken the other for crashed."""
    community = community_of(60, seed)
    side = list(community.members)[:30]
    community.stage.partition(side)
    for contact, member in community.members.items():
        for other in community.members:
            if (contact in side) != (other in side):
                member.suspect(other.id)
    community.stage.run_for(60)
    crossing = {c.id for c in side}
    community.stage.heal()
    community.stage.run_for(8)
    held = [
        (holder in crossing) != (member in crossing)
        for holder, view in community.graph.items()
        for member in view
    ]
    assert sum(held) >= 30
    assert is_strongly_connected(community.graph)


def test_the_crashed_are_visited_about_once_a_second_by_all_together() -> None:
    """However many members there are, and however many of them have crashed."""
    community = community_of(90, seed=32)
    for contact in list(community.members)[:30]:
        community.crash(contact)
    community.stage.run_for(60)
    visits = watched(community, lambda message: not message.indirect)
    community.stage.run_for(60)
    assert 20 <= len(visits) <= 150


def test_a_renewal_is_enough_where_few_members_are_to_hold_each_other() -> None:
    """A member that has renewed its subscription does not subscribe again at its next heartbeat."""
    community = community_of(60, seed=33, config=ScampConfig(c=0, margin=0))
    renewals = watched(community, lambda message: message.indirect)
    community.stage.run_for(480)
    assert 60 <= len(renewals) <= 130


def watched(
    community: ScampCommunity, chosen: Callable[[ScampSubscribe], bool]
) -> list[ScampSubscribe]:
    """The chosen ones of the subscriptions that are asked for from now on."""
    sent: list[ScampSubscribe] = []

    def watch(time: float, sender: Contact, to: Contact, message: object) -> None:
        if isinstance(message, ScampSubscribe) and chosen(message):
            sent.append(message)

    community.stage.observe(watch)
    return sent


def test_a_healed_partition_becomes_one_community_again() -> None:
    community = community_of(100, seed=28)
    side = list(community.members)[:50]
    community.stage.partition(side)
    community.stage.run_for(300)
    assert not is_connected(community.graph)
    assert all(40 <= member.size <= 60 for member in community.members.values())
    community.stage.heal()
    community.stage.run_for(60)
    assert is_strongly_connected(community.graph)
    assert reliability(community) >= 0.96


def test_a_gateway_that_comes_back_joins_the_partitioned_halves() -> None:
    """The same with configured gateways, all on one side."""
    community = ScampCommunity(29, gateways=2)
    community.grow(60, interval=0.1)
    community.stage.run_for(60)
    side = list(community.members)[30:]
    community.stage.partition(side)
    community.stage.run_for(300)
    assert not is_connected(community.graph)
    community.stage.heal()
    community.stage.run_for(120)
    assert is_strongly_connected(community.graph)


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_loss_without_acknowledgements_still_converges(loss: float) -> None:
    community = community_of(150, seed=30, network=StageConfig(loss=loss, duplicate=0.05))
    community.stage.run_for(60)
    assert all(listener.has_joined == 1 for listener in community.listeners.values())
    assert is_strongly_connected(community.graph)
    assert view_sizes(community.graph)[0] > 0.75 * community.config.holders(150)
    assert coverage(community.graph, 4, runs=40, seed=1) > 0.95


@pytest.mark.sweep
def test_a_thousand_members_converge_with_a_fifth_of_the_messages_lost() -> None:
    community = ScampCommunity(31, network=StageConfig(loss=0.2))
    community.grow(1000, interval=0.05)
    community.stage.run_for(200)
    assert is_strongly_connected(community.graph)
    assert view_sizes(community.graph)[0] > 0.6 * community.config.holders(1000)
    assert coverage(community.graph, 4, runs=20, seed=1) > 0.962


def test_small_communities_know_themselves_whole() -> None:
    for count in (2, 3, 6):
        community = ScampCommunity(32)
        community.grow(count, interval=0.0)
        community.stage.run_for(120)
        assert all(len(view) == count - 1 for view in community.graph.values())
        assert all(member.size == count for member in community.members.values())


def test_idle_members_send_less_than_one_message_a_second() -> None:
    community = ScampCommunity(33, ScampConfig(c=1))
    community.grow(100, interval=0.1)
    community.stage.run_for(120)
    before = community.stage.sent
    community.stage.run_for(200)
    assert (community.stage.sent - before) / 200 / 100 < 1.0


def test_light_members_say_and_are_asked_little_and_are_held_as_others_are() -> None:
    community = ScampCommunity(35)
    community.grow(60, interval=0.1)
    usual, community.config = community.config, ScampConfig(light=True)
    light = [community.join() for _ in range(4)]
    community.config = usual
    community.stage.run_for(300)
    beats = (Heartbeat, Echo)
    sent: list[bool] = []
    community.stage.observe(
        lambda time, sender, to, message: sent.append(
            sender in light and isinstance(message, beats)
        )
    )
    for _ in range(20):
        community.stage.run_for(10)
        for contact in light:
            member = community.members[contact]
            assert len(member.holders) > 0.6 * usual.holders(64)
            assert len(member.table) > 0.6 * usual.holders(64)
            assert 45 < member.size < 90
    assert sum(sent) / 200 / len(light) < 0.2  # others: 0.67
    community.crash(light[0])
    community.stage.run_for(300)
    assert not dead_arcs(community)


def test_after_everybody_left_nothing_runs() -> None:
    community = community_of(20, seed=34)
    for contact in list(community.members):
        community.leave(contact)
    community.stage.run_for(10)
    before = community.stage.sent
    community.stage.run_for(1000)
    assert community.stage.sent == before
    assert len(community.directory) == 0
