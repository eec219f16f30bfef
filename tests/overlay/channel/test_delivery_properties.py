"""Whatever the wire and the nodes do: each message once at most, and once exactly between two that live."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.channel.buffer import Until
from overlay.contact import Contact
from tests.overlay.channel.faulty_wire import Faults, Node, Wire
from tests.overlay.channel.scenario import (
    Action,
    Crash,
    Cut,
    Pause,
    Run,
    Scenario,
    Write,
    random_scenario,
)

times = st.floats(0, 20)
spans = st.floats(0.01, 15)
nodes = st.integers(0, 2)
links = st.sampled_from([(a, b) for a in range(3) for b in range(3) if a != b])
chances = st.floats(0, 0.4)

writes = st.builds(
    lambda at, link, size: Write(at, *link, size), times, links, st.integers(0, 8_000)
)
cuts = st.builds(lambda at, link, span: Cut(at, *link, span), times, links, spans)
pauses = st.builds(Pause, times, nodes, spans)
crashes = st.builds(Crash, times, nodes)
delays = st.floats(0.001, 0.3).flatmap(
    lambda least: st.tuples(st.just(least), st.floats(least, 0.5))
)
faults = st.builds(Faults, chances, chances, delays, st.sampled_from([0.0, 0.02, 0.1]))


def scenarios(*actions: st.SearchStrategy[Action]) -> st.SearchStrategy[Scenario]:
    return st.builds(
        Scenario,
        faults,
        st.lists(st.one_of(writes, *actions), min_size=1, max_size=30).map(tuple),
        st.just(3),
    )


quickly = settings(max_examples=150, print_blob=True)


@quickly
@given(scenarios(cuts, pauses), st.integers(0, 2**32))
def test_between_live_nodes_each_message_is_handed_up_exactly_once(
    scenario: Scenario, seed: int
) -> None:
    assert Run(scenario, seed).violations() == []


@quickly
@given(scenarios(cuts, pauses, crashes), st.integers(0, 2**32))
def test_despite_crashes_each_message_is_handed_up_at_most_once_and_settled(
    scenario: Scenario, seed: int
) -> None:
    assert Run(scenario, seed).violations() == []


@pytest.mark.parametrize("crash", [False, True], ids=["live", "crashes"])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_kept_long_after_the_last_message(seed: int, crash: bool) -> None:
    run = Run(random_scenario(seed, crash), seed)
    assert run.violations() == []
    assert run.leftovers() == []


@pytest.mark.parametrize("seed", range(5))
def test_after_crashes_messages_pass_again_in_both_directions(seed: int) -> None:
    run = Run(random_scenario(seed, crashes=True), seed)
    assert run.crashes
    before = len(run.written)
    for number, (source, target) in enumerate([(0, 1), (1, 0)]):
        run.wire.run(run.wire.now + 30)
        run.write(1_000 + number, Write(0, source, target, 20))
    run.wire.run(run.wire.now + 60)
    for message, (source_node, _, target_node) in list(run.written.items())[before:]:
        assert source_node.outcomes[message]
        assert target_node.delivered.count(message) == 1


def test_the_rest_of_a_crashed_peers_large_message_is_not_kept() -> None:
    """This seed once kept an incomplete message, and its channel, for ever."""
    assert Run(random_scenario(657, crashes=True), 657).leftovers() == []


@pytest.mark.sweep
@pytest.mark.parametrize("crash", [False, True], ids=["live", "crashes"])
@pytest.mark.parametrize("block", range(5))
def test_many_seeds(block: int, crash: bool) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        run = Run(random_scenario(seed, crash), seed)
        assert run.violations() == [], f"seed {seed}"
        assert run.leftovers() == [], f"seed {seed}"


class Letters:
    """Small messages both ways, many at a time, some of which come too late; one of the two takes none for a
    while, and then it cannot be reached."""

    def __init__(self, seed: int, alone: bool) -> None:
        rng = random.Random(seed)
        wire = self.wire = Wire(seed, Faults(rng.choice((0.0, 0.1)), 0.1, (0.01, 0.03)))
        wire.sends_alone = alone
        self.sent: list[tuple[float, Contact, bytes]] = []
        carry = wire.carry

        def carried(source: Node, to: Contact, packet: bytes) -> None:
            self.sent.append((wire.now, to, packet))
            carry(source, to, packet)

        wire.carry = carried  # type: ignore[method-assign]
        for number in range(1_600):
            lifetime = rng.choice((-1.0, 0.1, 5.0, 50.0))
            message = b"%d " % number + bytes(rng.randrange(100, 280))
            ends = (wire.nodes[0], wire.nodes[1])
            if rng.random() < 0.3:
                ends = ends[::-1]
            wire.at(rng.uniform(0, 14), partial(self.write, *ends, message, lifetime))
        wire.at(1, wire.nodes[1].pause)
        wire.at(rng.uniform(7, 9), wire.nodes[1].resume)
        wire.at(9, partial(wire.cut.add, (0, 1)))
        wire.at(16, wire.cut.clear)
        wire.run(60)

    def write(self, source: Node, target: Node, message: bytes, lifetime: float) -> None:
        now = self.wire.now
        core = source.table.to(target.contact, now)
        source.hand_over(
            core, message, partial(source.outcomes.__setitem__, message), Until(now + lifetime)
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_message_that_is_sent_alone_leaves_in_the_same_bytes_and_is_timed_alike(
    seed: int,
) -> None:
    alone, together = Letters(seed, True), Letters(seed, False)
    assert alone.sent == together.sent
    for one, other in zip(alone.wire.nodes, together.wire.nodes, strict=True):
        assert one.delivered == other.delivered
        assert one.outcomes == other.outcomes
