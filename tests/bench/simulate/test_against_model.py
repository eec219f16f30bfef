"""What is simulated is what the formulas say, within four standard errors."""

from __future__ import annotations

import math

import pytest

from bench.experiment import Experiment
from bench.model.formulas import (
    ModelCommunity,
    camcast_messages,
    drawn_passing_probability,
    final_size,
    gossip_reliability,
    hierarchical_messages,
    hierarchical_parasites,
    multicast_messages,
    passing_probability,
)
from bench.results import CommunityResult
from tests.bench.model.epidemics import effective_fanout, everyone_reached, extinction
from tests.bench.simulate.asked import (
    asked,
    events,
    everyone,
    messages,
    parasites,
    reached,
    received,
)
from tests.bench.simulate.statistics import (
    assert_mean,
    assert_share,
)


def group(size: int, fanout: int, **more: float | str) -> Experiment:
    """One community in which everyone forwards to `fanout` others."""
    return asked(sizes=(size,), c=fanout - math.log(size) + 1e-9, **more)


def full(results: list[list[CommunityResult]]) -> int:
    return sum(everyone(event) for event in results)


def receptions(results: list[list[CommunityResult]]) -> list[float]:
    """Shares of the live that were reached, by the events that did not die out near their publisher."""
    return [reached(own) / own.alive for (own,) in results if reached(own) > 200]


@pytest.mark.parametrize("fanout", [7, 8, 9])
def test_everyone_is_reached_with_exp_minus_exp_minus_c(fanout: int) -> None:
    size, runs = 2000, 600
    c = fanout - math.log(size)
    # N e^-f misses are expected; a finite group has (1 - f/(N-1))^(N-1) for e^-f, and the few not
    # reached do not send.
    missed = size * (1 - fanout / (size - 1)) ** (size - 1)
    assert math.exp(-missed) == pytest.approx(gossip_reliability(c), abs=0.02)
    results = events(group(size, fanout, loss=0), runs)
    assert_share(full(results), runs, math.exp(-missed))


def test_losses_thin_the_fanout() -> None:
    size, fanout, runs = 2000, 11, 600
    results = events(group(size, fanout, loss=0.15), runs)
    assert_share(full(results), runs, everyone_reached(size, effective_fanout(fanout, 0.85)))


@pytest.mark.parametrize(("fanout", "failed"), [(4, 0.0), (4, 0.3), (6, 0.6)])
def test_the_final_size_solves_its_equation(fanout: int, failed: float) -> None:
    results = events(group(20_000, fanout, loss=0.15, failed=failed), 25)
    expected = final_size(effective_fanout(fanout, 0.85, failed))
    grown = receptions(results)
    assert len(grown) > 5
    assert_mean(grown, expected, slack=0.002)


def test_weakly_consistent_views_are_a_further_loss() -> None:
    weak = events(group(20_000, 4, loss=0.15, failed=0.3, failure="weak"), 25)
    expected = final_size(4 * 0.85 * 0.7)
    assert_mean(receptions(weak), expected, slack=0.002)
    assert all(own.alive == 20_000 for (own,) in weak)
    sent = sum(messages(event) for event in weak)
    assert sent / sum(reached(own) for (own,) in weak) == pytest.approx(4 * 0.7, rel=0.005)


def test_events_die_out_near_their_publisher_as_branching_has_it() -> None:
    runs = 3000
    results = events(group(2000, 2, loss=0.25), runs)
    died = sum(reached(own) < 200 for (own,) in results)
    assert_share(died, runs, extinction(2, 0.75))


@pytest.mark.sweep
def test_tens_of_thousands_of_events_die_out_as_branching_has_it() -> None:
    runs = 20_000
    results = events(group(4000, 3, loss=0.3, failed=0.1), runs)
    died = sum(reached(own) < 400 for (own,) in results)
    assert_share(died, runs, extinction(3, 0.7 * 0.9))


def test_an_event_passes_on_as_the_draws_have_it_and_less_than_pit() -> None:
    runs = 2000
    lower = ModelCommunity(100, g=3)
    results = events(asked(sizes=(100, 50), g=3), runs)
    assert all(reached(low) > 90 for low, _ in results)
    passed = sum(reached(root) > 0 for _, root in results)
    drawn = drawn_passing_probability(lower)
    assert_share(passed, runs, drawn)
    assert passed / runs < passing_probability(lower) - 0.05


def test_reliability_is_the_product_of_gossip_and_passing_on() -> None:
    # (1000, 100, 10) as the paper has it: two passings, and everyone inside reached or nearly so.
    runs = 1500
    results = events(asked(), runs)
    passing = [drawn_passing_probability(ModelCommunity(n)) for n in (1000, 100)]
    assert_share(sum(reached(middle) > 0 for _, middle, _ in results), runs, passing[0])
    passed = sum(reached(root) > 0 for _, _, root in results)
    assert_share(passed, runs, passing[0] * passing[1])


def test_messages_are_those_of_the_formulas_with_the_floor_taken() -> None:
    results = events(asked(loss=0, p_sel=0.2), 100)
    assert full(results) == 100
    exact = tuple(
        ModelCommunity(n, c=math.floor(math.log(n) + 5) - math.log(n), g=0.2 * n, success=1)
        for n in (1000, 100, 10)
    )
    assert_mean([messages(event) for event in results], camcast_messages(exact))
    sent = {messages(event) for event in events(asked(protocol="multicast", loss=0.0), 20)}
    # The publisher sends once more in each of the two other communities.
    assert sent == {round(multicast_messages(exact)) + 9 + 7}
    found = events(asked(protocol="hierarchical", loss=0.0, publish_level=2), 50)
    assert {messages(event) for event in found} == {1110 * 16}
    assert hierarchical_messages(10, 111, 5, 5) > 1110 * 16
    lossless = hierarchical_parasites(10, 111, 10, 5, 5, 1.0)
    assert_mean([parasites(event) for event in found], lossless)


def test_upward_messages_received_are_g_times_a_times_success() -> None:
    # A root of one process gets nothing but from below.
    results = events(asked(sizes=(1000, 1), z=1), 800)
    assert_mean([received(root) for _, root in results], 5 * 0.85)
