"""Time-outs and tries follow what was measured."""

from __future__ import annotations

import random

import pytest

from overlay.contact import Address
from overlay.dht.round_trips import (
    FIRST_MARGIN,
    FIRST_TIMEOUT,
    LEAST_TIMEOUT,
    LEAST_TRIES,
    MOST_TIMEOUT,
    MOST_TRIES,
    PEERS,
    RoundTrips,
)

NEAR, FAR, NEW = (Address("127.0.0.1", port) for port in (1, 2, 3))


def test_before_anything_is_known_the_timeout_is_the_first() -> None:
    assert RoundTrips().timeout(NEW) == FIRST_TIMEOUT


def test_each_peer_has_its_own_timeout() -> None:
    trips = RoundTrips()
    for _ in range(50):
        trips.measured(NEAR, 0.050, 0)
        trips.measured(FAR, 0.300, 0)
    assert 0.050 < trips.timeout(NEAR) < 0.150
    assert 0.300 < trips.timeout(FAR) < 0.400
    assert trips.timeout(NEW) > 0.300, "one never heard may be as far as the farthest"


def test_a_moment_of_load_is_forgotten_for_peers_that_are_seldom_asked() -> None:
    trips = RoundTrips()
    for _ in range(20):
        trips.measured(NEAR, 0.010, 0)
        trips.measured(FAR, 0.010, 0)
    trips.measured(FAR, 2.0, 0)
    assert trips.timeout(FAR) > 0.5
    for _ in range(60):
        trips.measured(NEAR, 0.010, 0)
    assert trips.timeout(FAR) < 0.4


def test_peers_that_answered_once_do_not_tell_how_steady_they_are() -> None:
    trips = RoundTrips()
    for port in range(100, 160):
        trips.measured(Address("127.0.0.1", port), 0.02, 0)
    assert trips.timeout(Address("127.0.0.1", 100)) == pytest.approx(0.02 + FIRST_MARGIN)


def test_one_quick_reply_is_enough_to_know_the_way() -> None:
    trips = RoundTrips()
    trips.measured(NEAR, 1.5, 0)
    trips.measured(NEAR, 0.05, 0)
    for _ in range(60):
        trips.measured(FAR, 0.05, 0)
    assert trips.timeout(NEAR) < 0.2


def test_timeouts_stay_within_bounds() -> None:
    trips = RoundTrips()
    trips.measured(NEAR, 0.0, 0)
    assert trips.timeout(NEAR) >= LEAST_TIMEOUT
    trips.measured(FAR, 100.0, 0)
    assert trips.timeout(FAR) == MOST_TIMEOUT
    assert trips.timeout(FAR, attempt=99) == 2 * MOST_TIMEOUT


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.2, 0.36])
def test_live_peers_are_given_up_rarely_whatever_the_loss(loss: float) -> None:
    draw = random.Random(3)
    trips = RoundTrips()
    for _ in range(3000):
        lost = 0
        while draw.random() < loss:
            lost += 1
        trips.measured(NEAR, 0.05, lost)
    assert abs(trips.loss - loss) < 0.15
    assert loss**trips.tries < 1e-6
    assert LEAST_TRIES <= trips.tries <= MOST_TRIES


def test_without_loss_the_dead_cost_three_tries() -> None:
    trips = RoundTrips()
    for _ in range(500):
        trips.measured(NEAR, 0.05, 0)
    assert trips.tries == 3


def test_memory_is_bounded() -> None:
    trips = RoundTrips()
    for number in range(PEERS + 500):
        trips.measured(Address(f"127.0.{number // 256}.{number % 256}", 1), 0.05, 0)
    assert len(trips._ways) == PEERS
