"""When segments are acknowledged."""

from __future__ import annotations

import pytest

from overlay.channel.config import ChannelConfig
from overlay.channel.packet import ChannelRefused, encode_bundle
from overlay.channel.receiving import SEGMENTS_AN_ACK, ReceiveBudget, Receiver

FULL = 1000


def receiver() -> Receiver:
    config = ChannelConfig()
    return Receiver(config, ReceiveBudget(config.receive_memory), FULL)


def take(taker: Receiver, number: int, size: int, now: float = 0.0) -> None:
    segment = b"".join(encode_bundle([bytes(size)]))
    try:
        taker.inbox.take_bundle(number, segment)
    except ChannelRefused:
        taker.ack_due = True
        raise
    taker.taken(len(segment), now)


def test_every_second_full_segment_is_acknowledged_at_once() -> None:
    taker = receiver()
    take(taker, 0, FULL - 4)
    assert not taker.ack_due
    take(taker, 1, FULL - 4)
    assert taker.ack_due


def test_small_segments_are_acknowledged_together_or_after_a_while() -> None:
    taker = receiver()
    for number in range(SEGMENTS_AN_ACK - 1):
        take(taker, number, 10, now=number * 0.001)
        assert not taker.ack_due
    take(taker, SEGMENTS_AN_ACK - 1, 10)
    assert taker.ack_due
    taker.acknowledged()
    take(taker, SEGMENTS_AN_ACK, 10, now=1.0)
    assert taker.ack_at == 1.0 + ChannelConfig().ack_delay
    taker.handle_timer(taker.ack_at)
    assert taker.ack_due


def test_a_gap_and_a_repetition_are_acknowledged_at_once() -> None:
    taker = receiver()
    take(taker, 1, 10)
    assert taker.ack_due
    taker.acknowledged()
    take(taker, 0, 10)
    taker.acknowledged()
    with pytest.raises(ChannelRefused, match="duplicate"):
        take(taker, 0, 10)
    assert taker.ack_due
