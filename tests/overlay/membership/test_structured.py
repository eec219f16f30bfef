"""The structured service on a directory that knows everyone, truthfully or late."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.membership.structured.balance import FEW
from overlay.membership.structured.drawing import (
    Confirm,
    Drawn,
    DrawPace,
    Farewell,
    Released,
    StructuredConfig,
)
from overlay.membership.structured.service import StructuredMembership
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from tests.overlay.membership.community import (
    TOPIC,
    AllKnowing,
    Graph,
    Listener,
    coverage,
    graph_of,
    in_degrees,
    is_strongly_connected,
    reached,
)


class StructuredCommunity:
    """Members that draw their tables from one directory."""

    def __init__(
        self, seed: int, network: StageConfig | None = None, *, balance: bool = True
    ) -> None:
        self._balance = balance
        self.stage = Stage(seed, network)
        self.directory = AllKnowing(seed)
        self.config = StructuredConfig()
        self.members: dict[Contact, StructuredMembership] = {}
        self.listeners: dict[Contact, Listener] = {}
        self.metrics = Metrics()
        self._made = 0

    def join(self) -> Contact:
        contact = numbered_contact(self._made)
        self._made += 1
        self.listeners[contact] = Listener()
        member = StructuredMembership(
            TOPIC,
            self.stage.context(contact),
            self.directory.of(contact),
            self.listeners[contact],
            self.config,
            self.metrics,
            balance=self._balance,
        )
        self.members[contact] = member
        self.stage.attach(contact, member.receive)
        member.start()
        return contact

    def grow(self, count: int, interval: float) -> None:
        for _ in range(count):
            self.join()
            self.stage.run_for(interval)

    def crash(self, contact: Contact) -> None:
        """The directory goes on naming it."""
        self.stage.crash(contact)
        del self.members[contact]

    @property
    def graph(self) -> Graph:
        return graph_of(self.members)


def community_of(count: int, seed: int) -> StructuredCommunity:
    community = StructuredCommunity(seed)
    community.grow(count, interval=0.05)
    community.stage.run_for(60)
    return community


def test_the_published_rule_alone_draws_tables_and_takes_nobody_in() -> None:
    """In-degrees are then those of random draws, and a newcomer is held by those who draw it later."""
    community = StructuredCommunity(1, balance=False)
    community.grow(200, interval=0.05)
    community.stage.run_for(400)
    graph = community.graph
    size = community.config.table_size(200)
    assert {len(table) for table in graph.values()} == {size}
    held = in_degrees(graph)
    assert statistics.pvariance(held) == pytest.approx(size, rel=0.5)
    newcomer = community.join()
    community.stage.run_for(3)
    assert community.listeners[newcomer].has_joined
    assert sum(newcomer.id in table for table in community.graph.values()) == 0
    community.stage.run_for(700)
    assert sum(newcomer.id in table for table in community.graph.values()) > 0


def test_as_published_the_last_to_come_are_soon_in_as_many_tables_as_the_first() -> None:
    community = StructuredCommunity(2, balance=False)
    community.grow(100, interval=0.5)
    community.stage.run_for(90)
    graph = community.graph
    assert {len(table) for table in graph.values()} == {community.config.table_size(100)}
    held = in_degrees(graph)
    assert 0.8 < sum(held[50:]) / sum(held[:50]) < 1.25


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.sweep)])
def test_tables_have_one_size_and_are_uniform(count: int) -> None:
    community = community_of(count, seed=61)
    size = math.floor(math.log(count) + 5)
    assert {len(member.table) for member in community.members.values()} == {size}
    degrees = in_degrees(community.graph)
    # In-degrees of uniform tables are binomial: their variance is close to their mean.
    assert statistics.pvariance(degrees) == pytest.approx(size, rel=0.35)
    assert coverage(community.graph, 4, runs=20, seed=1) > 0.97
    community.stage.run_for(1.1 * community.config.longest_redraw_seconds + 5)
    assert {member.size for member in community.members.values()} == {count}


def test_a_newcomer_is_held_by_a_tableful_of_members_when_it_has_joined() -> None:
    community = community_of(100, seed=62)
    newcomer = community.join()
    while not community.listeners[newcomer].has_joined:
        community.stage.run_for(0.01)
    assert holders_of(community, newcomer) >= community.config.table_size(100)
    sizes = {len(member.table) for member in community.members.values()}
    assert sizes == {community.config.table_size(100)}, "it replaced others"
    listener = community.listeners[newcomer]
    assert set(listener.table) <= set(listener.asked), "what else is asked of them goes along"


def test_a_leaver_is_forgotten_by_everyone_at_once() -> None:
    community = community_of(100, seed=63)
    leaver = next(iter(community.members))
    assert any(leaver in member.table for member in community.members.values())
    community.members.pop(leaver).stop()
    community.stage.run_for(0.1)
    assert not any(leaver in member.table for member in community.members.values())


@pytest.mark.parametrize("seed", range(10))
def test_nobody_is_in_too_few_tables_while_a_community_grows_fast(seed: int) -> None:
    community = StructuredCommunity(seed)
    for count in range(1, 121):
        community.grow(1, interval=0.05)
        if count % 10 == 0:
            wanted = community.config.table_size(count)
            tables = [len(member.table) for member in community.members.values()]
            assert statistics.fmean(tables) > 0.8 * min(wanted, count - 1)
            community.stage.run_for(0.2)  # those whom the last ones replaced have asked others
            assert min(in_degrees(community.graph)) > 0


def test_a_member_learns_from_newcomers_that_its_community_has_grown() -> None:
    community = community_of(20, seed=65)
    one, other, *_ = community.members
    member = community.members[one]
    for size, believed in [
        (24.0, 20.0),
        (26.0, 26.0),
        (21.0, 26.0),
        (1e300, 26.0),
        (math.inf, 26.0),
        (math.nan, 26.0),
    ]:
        stranger = numbered_contact(1000)
        member.receive(stranger, Drawn(TOPIC, 10.0, size, take_in=True, newcomer=True))
        member.receive(stranger, Farewell(TOPIC))
        assert member.size == believed
    member.receive(other, Drawn(TOPIC, 10.0, 100.0, take_in=False, newcomer=False))
    assert member.size == 26.0


@pytest.mark.parametrize("seed", range(5))
def test_a_member_that_nobody_draws_sees_to_it_that_it_is_held(seed: int) -> None:
    community = community_of(60, seed)
    forgotten, *others = community.members
    community.directory.withdraw(forgotten)
    for contact in others[:20]:
        community.crash(contact)
    for member in community.members.values():
        for contact in [one for one in others[:20] if one in member.table]:
            member.suspect(contact.id)  # only those in its table are watched, not those who hold it
    held = []
    for _ in range(24):  # everyone draws anew by and by, and none draws the forgotten one
        community.stage.run_for(10)
        held.append(holders_of(community, forgotten))
    assert min(held[5:]) > 0  # the crashed that held it have not said so
    assert statistics.fmean(held) >= FEW * community.config.table_size(41)


def test_members_know_by_whom_they_are_held() -> None:
    community = community_of(100, seed=62)
    for _ in range(4):
        community.stage.run_for(30)
        wrong = [
            len(member.holders) - holders_of(community, contact)
            for contact, member in community.members.items()
        ]
        # Some are drawing at this moment.
        assert statistics.fmean(abs(number) for number in wrong) < 0.2


def holders_of(community: StructuredCommunity, contact: Contact) -> int:
    return sum(contact in member.table for member in community.members.values())


def test_the_crashed_that_the_directory_still_names_enter_no_table() -> None:
    community = community_of(100, seed=64)
    for contact in list(community.members)[:30]:
        community.crash(contact)
    community.stage.run_for(400)
    assert all(peer in community.members for m in community.members.values() for peer in m.table)
    assert is_strongly_connected(community.graph)


def test_one_whom_nobody_heard_when_it_joined_draws_again_within_seconds() -> None:
    community = community_of(5, seed=70)
    others = list(community.members)
    contact = numbered_contact(len(others))
    community.stage.partition([contact], others)
    assert community.join() == contact
    community.stage.run_for(5)
    assert not community.members[contact].table
    assert community.listeners[contact].has_joined == 1  # it is alone, as far as it knows
    community.stage.heal()
    community.stage.run_for(9)
    assert len(community.members[contact].table) == len(others)


def test_a_suspected_member_is_removed_and_the_next_drawing_comes_sooner() -> None:
    community = community_of(100, seed=65)
    community.stage.run_for(1000)
    member = next(iter(community.members.values()))
    victims = member.table[:4]
    for victim in victims:
        community.crash(victim)
        member.suspect(victim.id)
    assert not set(victims) & set(member.table)
    community.stage.run_for(20)
    assert len(member.table) == community.config.table_size(100)


def test_halves_of_a_network_that_was_cut_visit_each_other_now_and_then_and_meet_soon_after() -> (
    None
):
    community = community_of(100, seed=71)
    community.stage.run_for(400)
    everyone = list(community.members)
    halves = everyone[:50], everyone[50:]
    community.stage.partition(*halves)
    visits, drawing = [], set()

    def watch(time: float, sender: Contact, to: Contact, message: object) -> None:
        if isinstance(message, Drawn) and message.seconds == 0:
            visits.append(time)
        elif isinstance(message, Drawn):
            drawing.add(sender)

    for mine, others in (halves, halves[::-1]):
        for one in mine:
            for lost in set(others) & set(community.members[one].table):
                community.members[one].suspect(lost.id)
    community.stage.run_for(30)
    community.stage.observe(watch)
    community.stage.run_for(30)
    assert 15 <= len(visits) <= 45, "about one a second, by whomever"
    visits.clear()
    drawing.clear()
    community.stage.heal()
    community.stage.run_for(8)
    assert len(drawing) >= 95


def test_drawings_are_rare_when_nothing_changes_and_frequent_under_churn() -> None:
    community = community_of(60, seed=66)

    def drawings(seconds: float) -> float:
        asked = 0

        def count(time: float, sender: Contact, to: Contact, message: object) -> None:
            nonlocal asked
            asked += isinstance(message, Drawn)

        community.stage.observe(count)
        community.stage.run_for(seconds)
        return asked / seconds / len(community.members) / community.config.table_size(60)

    community.stage.run_for(900)
    idle = drawings(600)
    assert idle < 1.5 / community.config.longest_redraw_seconds

    def replace_one() -> None:
        leaver = next(iter(community.members))
        community.members.pop(leaver).stop()
        community.join()

    for second in range(300):  # one member of sixty leaves and one joins, every other second
        community.stage.call_at(community.stage.now + 2 * second, replace_one)
    assert drawings(600) > 5 * idle
    assert is_strongly_connected(community.graph)


def test_a_table_is_drawn_again_when_a_part_of_it_has_changed() -> None:
    config = StructuredConfig(change=0.1, shortest_redraw_seconds=10, longest_redraw_seconds=600)
    pace, now, drawings = DrawPace(config, 0.0), 0.0, list[float]()
    pace.drawn(now, 100)
    for _ in range(200):  # a tenth of the table in 50 seconds
        now += 5
        if (wait := pace.changed(now, 100, Random(1))) is not None:
            drawings.append(now + wait)
            pace.drawn(now + wait, 100)
    intervals = [later - sooner for sooner, later in pairwise(drawings)]
    assert len(intervals) > 15
    assert all(45 <= interval <= 55 for interval in intervals)


def test_a_burst_of_changes_brings_the_next_drawing_forward_once_and_not_too_near() -> None:
    pace, chance = DrawPace(StructuredConfig(), 0.0), Random(1)
    pace.drawn(106.0, 10)
    assert pace.changed(107.0, 10, chance) is None
    assert pace.changed(107.0, 10, chance) == pytest.approx(14.0)
    assert pace.changed(107.0, 10, chance) is None


def test_one_member_that_a_small_table_lacks_is_reason_enough_to_draw() -> None:
    pace, chance = DrawPace(StructuredConfig(), 0.0), Random(1)
    pace.drawn(0.0, 4)
    assert pace.changed(100.0, 4, chance) is None
    pace.drawn(200.0, 4)
    wait = pace.changed(300.0, 3, chance)
    assert wait is not None
    assert wait <= 15.0


def test_the_first_participant_is_alone_and_found_by_the_next() -> None:
    community = StructuredCommunity(67)
    first = community.join()
    assert community.listeners[first].has_joined == 1
    assert community.members[first].size == 1
    second = community.join()
    community.stage.run_for(1)
    assert community.members[first].table == (second,)
    assert community.members[second].table == (first,)


def test_two_first_participants_find_each_other_when_the_directory_knows_them() -> None:
    community = StructuredCommunity(68)
    first = community.join()
    community.directory.withdraw(first)
    second = community.join()
    community.directory.announce(first)
    community.stage.run_for(20)
    assert community.members[first].table == (second,)
    assert community.members[second].table == (first,)


def test_loss_without_acknowledgements_still_converges() -> None:
    community = StructuredCommunity(69, StageConfig(loss=0.2, duplicate=0.1, check_wire=True))
    community.grow(60, interval=0.1)
    community.stage.run_for(120)
    assert all(listener.has_joined == 1 for listener in community.listeners.values())
    assert is_strongly_connected(community.graph)
    sizes = [len(member.table) for member in community.members.values()]
    assert statistics.fmean(sizes) > 0.85 * community.config.table_size(60)


def test_a_healed_partition_becomes_one_community_again() -> None:
    community = community_of(60, seed=70)
    side = list(community.members)[:30]
    community.stage.partition(side)
    for member in community.members.values():
        for peer in member.table:
            if (peer in side) != (member in [community.members[one] for one in side]):
                member.suspect(peer.id)
    community.stage.run_for(60)
    start = side[0].id
    assert reached(community.graph, start, None, random.Random(0)) < 60
    community.stage.heal()
    community.stage.run_for(300)
    assert is_strongly_connected(community.graph)


def test_after_everybody_left_nothing_runs() -> None:
    community = community_of(20, seed=71)
    for member in community.members.values():
        member.stop()
    community.stage.run_for(1)
    before = community.stage.sent
    community.stage.run_for(2000)
    assert community.stage.sent == before
    assert len(community.directory) == 0


MESSAGES = st.one_of(
    st.builds(
        Drawn, st.just(TOPIC), st.floats(), st.floats(max_value=7), st.booleans(), st.booleans()
    ),
    st.builds(Confirm, st.just(TOPIC), st.floats()),
    st.builds(Farewell, st.just(TOPIC)),
    st.builds(Released, st.just(TOPIC)),
    st.just("hello"),
)


@given(st.lists(st.tuples(st.integers(0, 40), MESSAGES, st.floats(0, 30)), max_size=30))
@settings(max_examples=30, deadline=None)
def test_whatever_peers_say_the_table_is_sound_and_nothing_raises(
    said: list[tuple[int, object, float]],
) -> None:
    community = StructuredCommunity(72)
    community.grow(5, interval=0.1)
    me, member = next(iter(community.members.items()))
    for number, message, pause in said:
        member.receive(numbered_contact(number), message)
        community.stage.run_for(pause)
    assert me not in member.table
    assert len(set(member.table)) == len(member.table) <= community.config.table_size(6) + 1
    assert set(community.listeners[me].table) == set(member.table)
    community.stage.run_for(5000)
    assert len(member.holders) <= 5, "those who made themselves up are forgotten"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"c": -1.0}, "c must"),
        ({"change": 0.0}, "change"),
        ({"shortest_redraw_seconds": 0.0}, "shortest_redraw_seconds"),
        ({"longest_redraw_seconds": 1.0}, "longest_redraw_seconds"),
        ({"settle_seconds": -1.0}, "settle_seconds"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(changes: dict[str, float], field: str) -> None:
    with pytest.raises(UsageError, match=field):
        dataclasses.replace(StructuredConfig(), **changes)
