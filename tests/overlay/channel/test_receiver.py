"""When segments are acknowledged."""

from __future__ import annotations

import pytest

from overlay.channel.config import ChannelConfig
from overlay.channel.packet import ChannelRefused, encode_bundle
from overlay.channel.receiving import (
    FULL_SEGMENTS_AN_ACK,
    SEGMENTS_AN_ACK,
    ReceiveBudget,
    Receiver,
)

FULL = 8000
DELAY = ChannelConfig().ack_delay


def receiver(full_segment: int = FULL) -> Receiver:
    config = ChannelConfig()
    return Receiver(config, ReceiveBudget(config.receive_memory), full_segment)


def take(taker: Receiver, number: int, size: int, now: float = 0.0) -> None:
    segment = b"".join(encode_bundle([bytes(size)]))
    try:
        taker.inbox.take_bundle(number, segment)
    except ChannelRefused:
        taker.soon(now)
        raise
    taker.taken(len(segment), now)


@pytest.mark.parametrize(
    ("full", "together"), [(FULL, FULL_SEGMENTS_AN_ACK), (1400, SEGMENTS_AN_ACK)]
)
def test_full_segments_are_acknowledged_at_once_four_at_a_time_and_eight_where_they_are_small(
    full: int, together: int
) -> None:
    taker = receiver(full)
    for number in range(together - 1):
        take(taker, number, full - 4)
        assert not taker.ack_due
    take(taker, together - 1, full - 4)
    assert taker.ack_due


def test_small_segments_are_acknowledged_together_or_after_a_while() -> None:
    taker = receiver()
    for number in range(SEGMENTS_AN_ACK - 1):
        take(taker, number, 10, now=number * 0.001)
        assert not taker.ack_due
    take(taker, SEGMENTS_AN_ACK - 1, 10)
    assert taker.ack_due
    taker.acknowledged(0.5)
    take(taker, SEGMENTS_AN_ACK, 10, now=1.0)
    assert taker.ack_at == 1.0 + DELAY
    taker.handle_timer(taker.ack_at)
    assert taker.ack_due


def test_a_gap_and_a_repetition_are_acknowledged_at_once() -> None:
    taker = receiver()
    take(taker, 1, 10)
    assert taker.ack_due
    taker.acknowledged(0.0)
    take(taker, 0, 10, now=1.0)
    taker.acknowledged(1.0)
    with pytest.raises(ChannelRefused, match="duplicate"):
        take(taker, 0, 10, now=2.0)
    assert taker.ack_due


def test_while_a_segment_is_missing_the_sender_is_told_once_in_a_while() -> None:
    taker = receiver()
    take(taker, 1, 10, now=1.0)
    taker.acknowledged(1.0)
    take(taker, 2, 10, now=1.001)
    take(taker, 3, 10, now=1.002)
    assert not taker.ack_due
    assert taker.ack_at == 1.0 + DELAY


def test_an_acknowledgement_that_rides_says_neither_what_is_missing_nor_the_limit() -> None:
    taker = receiver()
    take(taker, 0, 10, now=1.0)
    taker.rode(1.0)
    assert taker.ack_at is not None  # the sender was never told the limit
    taker.tell_limit()
    taker.rode(1.0)
    assert taker.ack_at is None
    take(taker, 2, 10, now=2.0)
    taker.rode(2.0)
    assert taker.ack_due
