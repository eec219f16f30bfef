"""HyParView: symmetric views of the right size, that stay connected through all faults."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.context import Context
from overlay.errors import UsageError
from overlay.membership.hyparview import (
    ForwardJoin,
    HyParViewConfig,
    HyParViewDisconnect,
    HyParViewJoin,
    HyParViewMembership,
    Keep,
    Neighbour,
    NeighbourAnswer,
    Shuffle,
    ShuffleAnswer,
)
from overlay.membership.interface import TopicDirectory
from overlay.virtual.stage import StageConfig, numbered_contact
from tests.overlay.membership.community import (
    TOPIC,
    StagedCommunity,
    coverage,
    in_degrees,
    is_connected,
    is_strongly_connected,
)

HARSH = StageConfig(latency=(0.01, 0.4), loss=0.1, duplicate=0.05, check_wire=True)


class HyParViewCommunity(StagedCommunity[HyParViewMembership]):
    def __init__(
        self,
        seed: int,
        config: HyParViewConfig | None = None,
        network: StageConfig | None = None,
        gateways: int = 0,
    ) -> None:
        super().__init__(seed, network, gateways)
        self.config = config or HyParViewConfig(c=3.0)

    def make(
        self, contact: Contact, context: Context, directory: TopicDirectory
    ) -> HyParViewMembership:
        listener = self.listeners[contact]
        return HyParViewMembership(TOPIC, context, directory, listener, self.config, self.metrics)

    def one_sided(self) -> int:
        """Arcs between live members that have no arc back."""
        arcs = {(i.id, j.id) for i, m in self.members.items() for j in m.table if j in self.members}
        return len({(i, j) for i, j in arcs if (j, i) not in arcs})


def check_bookkeeping(community: HyParViewCommunity) -> None:
    for contact, member in community.members.items():
        assert set(member.table) == set(community.listeners[contact].table)
        assert contact not in member.table
        assert contact not in member.passive
        assert not set(member.table) & set(member.passive)
        assert community.listeners[contact].has_joined == 1


@pytest.mark.parametrize("seed", range(3))
def test_views_are_symmetric_of_the_right_size_and_connected(seed: int) -> None:
    community = HyParViewCommunity(seed, network=StageConfig(check_wire=True))
    community.grow(120, interval=0.2)
    community.stage.run_for(120)
    check_bookkeeping(community)
    assert community.one_sided() == 0
    assert is_strongly_connected(community.graph)
    degrees = in_degrees(community.graph)
    wanted = math.floor(math.log(120) + 3)
    assert wanted - 1 <= statistics.fmean(degrees) <= wanted + 2
    assert min(degrees) >= wanted - 2
    sizes = [member.size for member in community.members.values()]
    assert 80 <= statistics.median(sizes) <= 180
    passive = [len(member.passive) for member in community.members.values()]
    assert statistics.fmean(passive) >= 2 * wanted
    assert max(passive) <= 6 * (wanted + 2)


def test_gossip_over_active_views_reaches_everyone() -> None:
    community = HyParViewCommunity(4)
    community.grow(150, interval=0.1)
    community.stage.run_for(90)
    assert coverage(community.graph, fanout=8, runs=30, seed=1) == 1.0


@pytest.mark.parametrize("part", [0.3, 0.6, 0.8])
def test_a_mass_crash_is_repaired_from_the_passive_views(part: float) -> None:
    community = HyParViewCommunity(5, network=StageConfig(check_wire=True))
    community.grow(120, interval=0.1)
    community.stage.run_for(120)
    community.crash_some(part)
    community.stage.run_for(120)
    check_bookkeeping(community)
    graph = community.graph
    assert all(peer in graph for view in graph.values() for peer in view)
    assert is_strongly_connected(graph)
    assert community.one_sided() == 0


@pytest.mark.parametrize("seed", range(3))
def test_members_agree_who_are_neighbours_though_messages_are_lost(seed: int) -> None:
    community = HyParViewCommunity(seed, network=HARSH)
    community.grow(60, interval=0.3)
    for _ in range(20):
        community.crash(community.anyone())
        community.leave(community.anyone())
        community.join()
        community.join()
        community.stage.run_for(1.0)
    community.stage.run_for(180)
    check_bookkeeping(community)
    graph = community.graph
    assert is_connected(graph)
    assert coverage(graph, fanout=8, runs=20, seed=1) > 0.99
    assert community.one_sided() <= 0.1 * sum(len(view) for view in graph.values())
    assert community.metrics.family("membership_dropped", "reason", "")["malformed_census"] == 0


def test_the_halves_of_a_healed_partition_become_one_again() -> None:
    community = HyParViewCommunity(7)
    community.grow(60, interval=0.1)
    community.stage.run_for(60)
    half = list(community.members)[:30]
    community.stage.partition(half)
    community.stage.run_for(600)
    left = {contact.id for contact in half}
    assert not any(
        (peer in left) != (member in left)
        for member, view in community.graph.items()
        for peer in view
    )
    community.stage.heal()
    community.stage.run_for(240)
    assert is_strongly_connected(community.graph)


@pytest.mark.parametrize("seed", [20, 21])
def test_the_halves_of_a_partition_are_neighbours_again_within_seconds(seed: int) -> None:
    """Without any help of a directory: each half had taken the other for crashed."""
    community = HyParViewCommunity(seed, HyParViewConfig(shortest_visit_seconds=900))
    community.grow(60, interval=0.1)
    community.stage.run_for(60)
    half = list(community.members)[:30]
    community.stage.partition(half)
    for contact, member in community.members.items():
        for other in community.members:
            if (contact in half) != (other in half):
                member.suspect(other.id)
    community.stage.run_for(60)
    community.stage.heal()
    community.stage.run_for(8)
    ids = {contact.id for contact in half}
    crossing = [
        (member in ids) != (neighbour in ids)
        for member, view in community.graph.items()
        for neighbour in view
    ]
    assert sum(crossing) >= 30
    assert is_strongly_connected(community.graph)


def test_a_lone_first_member_has_joined_and_finds_the_second() -> None:
    community = HyParViewCommunity(8, gateways=1)
    first = community.join()
    community.stage.run_for(1)
    assert community.listeners[first].has_joined == 1
    assert community.members[first].table == ()
    second = community.join()
    community.stage.run_for(3)
    assert community.members[first].table == (second,)
    assert community.members[second].table == (first,)
    assert community.members[first].size == 2


def test_who_leaves_says_goodbye_and_is_forgotten() -> None:
    community = HyParViewCommunity(9)
    community.grow(12, interval=0.2)
    community.stage.run_for(30)
    gone = community.anyone()
    community.leave(gone)
    community.stage.run_for(0.2)
    for member in community.members.values():
        assert gone not in member.table
    sent = community.stage.sent
    community.stage.run_for(0.0)
    assert community.stage.sent == sent


def test_a_newcomer_has_neighbours_all_over_the_community_when_it_has_joined() -> None:
    community = HyParViewCommunity(12)
    community.grow(60, interval=0.1)
    community.stage.run_for(60)
    for _ in range(5):
        newcomer = community.join()
        community.stage.run_for(1.2)
        assert community.listeners[newcomer].has_joined == 1
        assert len(community.members[newcomer].table) >= 4


def test_passive_views_are_exchanged_though_nobody_comes_or_goes() -> None:
    community = HyParViewCommunity(13, HyParViewConfig(c=3.0, longest_visit_seconds=3600))
    community.grow(100, interval=0.05)
    community.stage.run_for(60)
    before = {contact: set(member.passive) for contact, member in community.members.items()}
    community.stage.run_for(400)
    kept = [
        len(before[contact] & set(member.passive)) / max(len(before[contact]), 1)
        for contact, member in community.members.items()
    ]
    assert statistics.fmean(kept) < 0.5


def test_a_larger_c_makes_larger_views_at_once() -> None:
    community = HyParViewCommunity(10)
    community.grow(60, interval=0.1)
    community.stage.run_for(90)
    before = statistics.fmean(len(member.table) for member in community.members.values())
    for member in community.members.values():
        member.reconfigure(8.0)
    community.stage.run_for(30)
    after = statistics.fmean(len(member.table) for member in community.members.values())
    assert after >= before + 3


SOMEBODY = st.integers(0, 40).map(numbered_contact)
MEMBERS = st.lists(SOMEBODY, max_size=12).map(tuple)
CENSUS = st.binary(max_size=40)
ANYTHING = st.one_of(
    st.just(HyParViewJoin(TOPIC)),
    st.builds(ForwardJoin, st.just(TOPIC), SOMEBODY, st.integers(-5, 2**40)),
    st.builds(Neighbour, st.just(TOPIC), st.booleans(), CENSUS),
    st.builds(NeighbourAnswer, st.just(TOPIC), st.booleans(), CENSUS),
    st.builds(HyParViewDisconnect, st.just(TOPIC), st.booleans()),
    st.builds(Keep, st.just(TOPIC), CENSUS, st.booleans()),
    st.builds(Shuffle, st.just(TOPIC), SOMEBODY, st.integers(-5, 2**40), MEMBERS),
    st.builds(ShuffleAnswer, st.just(TOPIC), MEMBERS),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SOMEBODY, ANYTHING), max_size=60))
def test_whatever_peers_say_nothing_raises_and_the_views_stay_within_bounds(
    said: list[tuple[Contact, object]],
) -> None:
    community = HyParViewCommunity(11)
    community.grow(3, interval=0.5)
    contact = community.anyone()
    member = community.members[contact]
    for sender, message in said:
        member.receive(sender, message)
    community.stage.run_for(30)
    assert len(member.table) <= 66
    assert len(member.passive) <= 6 * 66
    assert set(member.table) == set(community.listeners[contact].table)


@pytest.mark.parametrize(
    ("field", "value"),
    [("c", -1), ("passive_walk", 9), ("patience", 0), ("keep_seconds", 0), ("shuffled_active", 17)],
)
def test_a_parameter_that_means_nothing_is_refused(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=field):
        HyParViewConfig(**{field: value})  # type: ignore[arg-type]


def test_who_joins_again_has_its_walks_sent_once() -> None:
    community = HyParViewCommunity(1)
    community.grow(12, interval=0.2)
    community.stage.run_for(60)
    victim = next(iter(community.members))
    member = community.members[victim]
    neighbour = member.table[0]
    walks: list[object] = []

    def see(time: float, sender: Contact, to: Contact, message: object) -> None:
        if isinstance(message, ForwardJoin):
            walks.append(message)

    community.stage.observe(see)
    for _ in range(20):
        member.receive(neighbour, HyParViewJoin(TOPIC))
    community.stage.run_for(2)
    assert not walks
