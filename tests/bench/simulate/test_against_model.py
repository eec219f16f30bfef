"""What is simulated is what the formulas say, within four standard errors."""

from __future__ import annotations

import math

import pytest

from bench.model.formulas import (
    ModelCommunity,
    camcast_messages,
    drawn_passing_probability,
    effective_fanout,
    everyone_reached,
    extinction,
    final_size,
    gossip_reliability,
    hierarchical_messages,
    hierarchical_parasites,
    multicast_messages,
    passing_probability,
)
from bench.simulate import (
    Failure,
    Protocol,
    SimulationResult,
    SimulationSettings,
    simulate_independently,
)
from tests.bench.simulate.statistics import (
    assert_mean,
    assert_share,
)


def group(size: int, fanout: int, **more: float | Failure) -> SimulationSettings:
    """One community in which everyone forwards to `fanout` others."""
    return SimulationSettings(
        community_sizes=(size,),
        c=fanout - math.log(size) + 1e-9,
        **more,  # type: ignore[arg-type]
    )


def full(results: list[SimulationResult]) -> int:
    return sum(result.everyone for result in results)


@pytest.mark.parametrize("fanout", [7, 8, 9])
def test_everyone_is_reached_with_exp_minus_exp_minus_c(fanout: int) -> None:
    size, runs = 2000, 600
    c = fanout - math.log(size)
    # N e^-f misses are expected; a finite group has (1 - f/(N-1))^(N-1) for e^-f, and the few not
    # reached do not send.
    missed = size * (1 - fanout / (size - 1)) ** (size - 1)
    assert math.exp(-missed) == pytest.approx(gossip_reliability(c), abs=0.02)
    results = simulate_independently(group(size, fanout, loss=0), runs)
    assert_share(full(results), runs, math.exp(-missed))


def test_losses_thin_the_fanout() -> None:
    size, fanout, runs = 2000, 11, 600
    results = simulate_independently(group(size, fanout, loss=0.15), runs)
    assert_share(full(results), runs, everyone_reached(size, effective_fanout(fanout, 0.85)))


@pytest.mark.parametrize(("fanout", "failed"), [(4, 0.0), (4, 0.3), (6, 0.6)])
def test_the_final_size_solves_its_equation(fanout: int, failed: float) -> None:
    results = simulate_independently(group(20_000, fanout, loss=0.15, failed=failed), 25)
    expected = final_size(effective_fanout(fanout, 0.85, failed))
    grown = [r.communities[0].reception or 0 for r in results if r.communities[0].reached > 200]
    assert len(grown) > 5
    assert_mean(grown, expected, slack=0.002)


def test_weakly_consistent_views_are_a_further_loss() -> None:
    weak = simulate_independently(group(20_000, 4, loss=0.15, failed=0.3, failure=Failure.WEAK), 25)
    expected = final_size(4 * 0.85 * 0.7)
    grown = [r.communities[0].reception or 0 for r in weak if r.communities[0].reached > 200]
    assert_mean(grown, expected, slack=0.002)
    assert all(r.communities[0].alive == 20_000 for r in weak)
    sent = sum(r.communities[0].sent_inside for r in weak)
    reached = sum(r.communities[0].reached for r in weak)
    assert sent / reached == pytest.approx(4 * 0.7, rel=0.005)


def test_events_die_out_near_their_publisher_as_branching_has_it() -> None:
    runs = 3000
    results = simulate_independently(group(2000, 2, loss=0.25), runs)
    died = sum(result.communities[0].reached < 200 for result in results)
    assert_share(died, runs, extinction(2, 0.75))


@pytest.mark.sweep
def test_tens_of_thousands_of_events_die_out_as_branching_has_it() -> None:
    runs = 20_000
    settings = group(4000, 3, loss=0.3, failed=0.1)
    results = simulate_independently(settings, runs)
    died = sum(result.communities[0].reached < 400 for result in results)
    assert_share(died, runs, extinction(3, 0.7 * 0.9))


def test_an_event_passes_on_as_the_draws_have_it_and_less_than_pit() -> None:
    runs = 2000
    lower = ModelCommunity(100, g=3)
    settings = SimulationSettings(community_sizes=(100, 50), g=3)
    results = simulate_independently(settings, runs)
    assert all(result.communities[0].reached > 90 for result in results)
    passed = sum(result.root_reached for result in results)
    drawn = drawn_passing_probability(lower)
    assert_share(passed, runs, drawn)
    assert passed / runs < passing_probability(lower) - 0.05


def test_reliability_is_the_product_of_gossip_and_passing_on() -> None:
    # (1000, 100, 10) as the paper has it: two passings, and everyone inside reached or nearly so.
    runs = 1500
    results = simulate_independently(SimulationSettings(), runs)
    passing = [drawn_passing_probability(ModelCommunity(n)) for n in (1000, 100)]
    assert_share(sum(r.communities[1].reached > 0 for r in results), runs, passing[0])
    assert_share(sum(r.root_reached for r in results), runs, passing[0] * passing[1])


def test_messages_are_those_of_the_formulas_with_the_floor_taken() -> None:
    results = simulate_independently(SimulationSettings(loss=0, p_sel=0.2), 100)
    assert all(result.everyone for result in results)
    exact = tuple(
        ModelCommunity(n, c=math.floor(math.log(n) + 5) - math.log(n), g=0.2 * n, success=1)
        for n in (1000, 100, 10)
    )
    assert_mean([result.messages for result in results], camcast_messages(exact))
    many = SimulationSettings(protocol=Protocol.MULTICAST, loss=0)
    sent = [result.messages for result in simulate_independently(many, 20)]
    # The publisher sends once more in each of the two other communities.
    assert set(sent) == {round(multicast_messages(exact)) + 9 + 7}
    clusters = SimulationSettings(protocol=Protocol.HIERARCHICAL, loss=0, publish_level=2)
    found = simulate_independently(clusters, 50)
    assert {result.messages for result in found} == {1110 * 16}
    assert hierarchical_messages(10, 111, 5, 5) > 1110 * 16
    lossless = hierarchical_parasites(10, 111, 10, 5, 5, 1.0)
    assert_mean([float(result.parasites) for result in found], lossless)


def test_upward_messages_received_are_g_times_a_times_success() -> None:
    results = simulate_independently(SimulationSettings(), 800)
    received = [float(result.communities[1].received_from_below) for result in results]
    assert_mean(received, 5 * 0.85)
