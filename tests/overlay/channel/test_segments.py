"""Messages survive being bundled, cut and put together; anything else is refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.packet import PacketType, Refused
from overlay.channel.protocol.reassembly import Reassembly
from overlay.channel.protocol.segment import (
    FRAGMENT_HEAD,
    decode_bundle,
    decode_fragment,
    encode_bundle,
    encode_fragment,
)
from overlay.channel.protocol.send_buffer import Segment, SendBuffer

ROOM = 200


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_a_bundle_holds_its_messages(messages: list[bytes]) -> None:
    assert decode_bundle(encode_bundle(messages)) == messages


@given(st.binary(max_size=60))
def test_any_bytes_are_a_bundle_or_refused(data: bytes) -> None:
    with contextlib.suppress(Refused):
        assert encode_bundle(decode_bundle(data)) == data


@given(st.binary(max_size=60))
def test_any_bytes_are_a_fragment_within_its_message_or_refused(data: bytes) -> None:
    with contextlib.suppress(Refused):
        _, length, offset = decode_fragment(data, max_message=1_000)
        assert offset + len(data) - FRAGMENT_HEAD.size <= length <= 1_000


def all_segments(buffer: SendBuffer) -> list[Segment]:
    return list(iter(buffer.next_segment, None))


@given(st.lists(st.binary(max_size=900), max_size=20), st.integers(0, 1_000))
def test_what_is_cut_in_segments_comes_together_in_any_order(
    messages: list[bytes], seed: int
) -> None:
    buffer = SendBuffer(1_000, limit=100_000, segment_room=ROOM)
    for message in messages:
        assert buffer.add(message, None)
    segments = all_segments(buffer)
    assert all(segment.size <= ROOM for segment in segments)
    random.Random(seed).shuffle(segments)
    reassembly = Reassembly(100_000, Budget(100_000))
    received: list[bytes] = []
    for segment in segments:
        if segment.kind == PacketType.BUNDLE:
            received += decode_bundle(segment.payload)
            continue
        place = decode_fragment(segment.payload, 1_000)
        part = memoryview(segment.payload)[FRAGMENT_HEAD.size :]
        complete = reassembly.add(*place, part, segment.size)
        received += [] if complete is None else [complete[0]]
    assert sorted(received) == sorted(messages)
    assert len(reassembly) == 0


@given(st.lists(st.binary(max_size=900), max_size=20), st.data())
def test_every_charged_byte_is_given_back_and_every_callback_called_once(
    messages: list[bytes], data: st.DataObject
) -> None:
    buffer = SendBuffer(1_000, limit=100_000, segment_room=ROOM)
    called: list[tuple[int, bool]] = []
    for number, message in enumerate(messages):
        buffer.add(message, lambda arrived, number=number: called.append((number, arrived)))  # type: ignore[misc]
    segments: list[Segment] = []
    for _ in range(data.draw(st.integers(0, 30))):
        segment = buffer.next_segment()
        segments += [] if segment is None else [segment]
    acknowledged = data.draw(st.integers(0, len(segments)))
    for segment in segments[:acknowledged]:
        buffer.acknowledged(segment)
    lost = buffer.lose(segments[acknowledged:]) + buffer.lose_waiting()
    for callback, arrived in buffer.outcomes:
        callback(arrived)
    assert buffer.used == 0
    assert sorted(number for number, _ in called) == list(range(len(messages)))
    assert sum(not arrived for _, arrived in called) == lost


def test_a_full_buffer_says_no_and_keeps_nothing() -> None:
    buffer = SendBuffer(1_000, limit=1_000, segment_room=ROOM)
    assert buffer.add(bytes(900), None)
    assert not buffer.add(bytes(100), None)
    assert len(buffer.waiting) == 1


def test_a_message_that_was_begun_can_be_completed_whatever_memory_is_left() -> None:
    budget = Budget(1_500)
    reassembly = Reassembly(10_000, budget)
    assert reassembly.add(0, 1_000, 0, memoryview(bytes(500)), 516) is None
    with pytest.raises(Refused, match="receive_memory_full"):
        reassembly.add(1, 1_000, 0, memoryview(bytes(500)), 516)
    complete = reassembly.add(0, 1_000, 500, memoryview(bytes(500)), 516)
    assert complete == (bytes(1_000), 1_032)
    assert budget.used == 0


def test_fragments_that_disagree_on_the_length_are_refused() -> None:
    reassembly = Reassembly(10_000, Budget(10_000))
    reassembly.add(0, 1_000, 0, memoryview(bytes(500)), 516)
    with pytest.raises(Refused, match="malformed"):
        reassembly.add(0, 999, 500, memoryview(bytes(499)), 515)


def test_a_fragment_of_the_middle_has_its_offset() -> None:
    message = bytes(range(250))
    segment = encode_fragment(7, message, 100, 50)
    assert decode_fragment(segment, 1_000) == (7, 250, 100)
    assert segment[FRAGMENT_HEAD.size :] == message[100:150]
