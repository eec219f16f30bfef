"""The time-out follows RFC 6298; the window doubles, then adds, and halves once a round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.channel.config import ChannelConfig
from overlay.channel.recovery import (
    INITIAL_BYTES,
    LEAST_BYTES,
    LEAST_SEGMENTS,
    CongestionWindow,
    RoundTrip,
)
from overlay.channel.sending import Transmitter


def test_the_first_sample_sets_the_estimate_as_in_rfc_6298_2_2() -> None:
    rtt = RoundTrip(initial=1.0, least=0.1, most=60.0)
    rtt.sample(0.4)
    assert (rtt.smoothed, rtt.variation) == (0.4, 0.2)
    assert rtt.timeout == pytest.approx(0.4 + 4 * 0.2)


def test_later_samples_weigh_an_eighth_and_a_quarter_as_in_rfc_6298_2_3() -> None:
    rtt = RoundTrip(initial=1.0, least=0.1, most=60.0)
    rtt.sample(0.4)
    rtt.sample(0.8)
    assert rtt.variation == pytest.approx(0.75 * 0.2 + 0.25 * 0.4)
    assert rtt.smoothed == pytest.approx(0.875 * 0.4 + 0.125 * 0.8)


def test_the_timeout_doubles_until_its_limit_and_recovers_with_an_answer() -> None:
    rtt = RoundTrip(initial=0.5, least=0.1, most=3.0)
    timeouts = []
    for _ in range(5):
        timeouts.append(rtt.timeout)
        rtt.timed_out()
    assert timeouts == [0.5, 1.0, 2.0, 3.0, 3.0]
    rtt.answered()
    assert rtt.timeout == 0.5


def test_the_back_off_ends_with_an_acknowledgement_of_what_was_sent_once() -> None:
    transmitter = Transmitter(ChannelConfig(), max_body=1_000)
    transmitter.limit = 100_000

    def send(now: float, message: bytes | None = None) -> None:
        if message is not None:
            transmitter.buffer.add(message, None)
        assert transmitter.next_run(now, only_finish=False) is not None

    send(0.0, b"lost once")
    transmitter.rtt.timed_out()
    transmitter.time_out()
    send(1.0)
    before = transmitter.rtt.timeout
    assert transmitter.acknowledge(1, 0, 1.0001)  # of which of the two copies?
    assert transmitter.rtt.timeout == before
    send(2.0, b"sent once")
    assert transmitter.acknowledge(2, 0, 2.01)
    assert transmitter.rtt.backoff == 1


@given(st.lists(st.floats(0.0001, 10), min_size=1))
def test_the_timeout_is_never_below_the_estimate_nor_outside_its_limits(
    samples: list[float],
) -> None:
    rtt = RoundTrip(initial=0.5, least=0.1, most=5.0)
    for sample in samples:
        rtt.sample(sample)
    assert rtt.smoothed is not None
    assert min(samples) * 0.999 <= rtt.smoothed <= max(samples) * 1.001
    assert 0.1 <= rtt.timeout <= 5.0
    assert rtt.timeout >= min(rtt.smoothed, 5.0)


def test_the_window_doubles_while_nothing_is_lost() -> None:
    window = CongestionWindow(segment=1_000, most_segments=1_000)
    before = window.size
    window.acknowledged(before, number=1, was_full=True)
    assert window.size == 2 * before


def test_an_unused_window_does_not_grow() -> None:
    window = CongestionWindow(segment=1_000, most_segments=1_000)
    before = window.size
    window.acknowledged(before, number=1, was_full=False)
    assert window.size == before


def test_losses_of_one_round_trip_halve_the_window_once_and_then_it_grows_by_a_segment() -> None:
    window = CongestionWindow(segment=1_000, most_segments=1_000)
    while window.size < 2 * LEAST_BYTES:
        window.acknowledged(window.size, number=1, was_full=True)
    before = window.size
    for number in (3, 4, 5):
        window.lost(number, next_number=10)
    assert window.size == before // 2
    window.acknowledged(1_000, number=9, was_full=True)
    assert window.size == before // 2, "sent before the halving: says nothing new"
    window.acknowledged(window.size, number=10, was_full=True)
    assert window.size == before // 2 + 1_000


def test_losses_keep_nobody_below_the_floor() -> None:
    window = CongestionWindow(segment=1_000, most_segments=1_000)
    for number in range(100):
        window.lost(number, next_number=number + 1)
        window.acknowledged(window.size, number=number, was_full=True)
    assert LEAST_BYTES <= window.size <= 2 * LEAST_BYTES


def test_large_segments_begin_with_what_a_socket_holds() -> None:
    assert CongestionWindow(segment=60_000, most_segments=1_000).size == INITIAL_BYTES


def test_a_time_out_leaves_the_least_window_and_no_loss_leaves_less() -> None:
    window = CongestionWindow(segment=1_000, most_segments=1_000)
    window.timed_out(in_flight=8_000, next_number=5)
    assert window.size == LEAST_SEGMENTS * 1_000
    window.lost(7, next_number=9)
    assert window.size == LEAST_SEGMENTS * 1_000
