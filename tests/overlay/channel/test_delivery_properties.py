"""Whatever the wire and the nodes do: each message once at most, and once exactly between two that live."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.channel.faulty_wire import Faults
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
