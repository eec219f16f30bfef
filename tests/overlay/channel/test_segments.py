"""Messages survive being bundled, cut and put together; anything else is refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.channel.buffer import SegmentRun, SendBuffer
from overlay.channel.config import ChannelConfig
from overlay.channel.packet import (
    BUNDLE,
    FRAGMENT,
    LOW,
    PART_HEAD_BYTES,
    ChannelRefused,
    PacketType,
    bundle_room,
    decode_bundle,
    encode_bundle,
    segment_room,
    whole,
)
from overlay.channel.receiving import Reassembly, ReceiveBudget, ReceiveWindow
from overlay.channel.sending import Flight
from overlay.transport.frame import Buffer

ROOM = 200


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_a_bundle_holds_its_messages(messages: list[bytes]) -> None:
    assert decode_bundle(b"".join(encode_bundle(messages))) == messages


@given(st.binary(max_size=60))
def test_any_bytes_are_a_bundle_or_refused(data: bytes) -> None:
    with contextlib.suppress(ChannelRefused):
        assert b"".join(encode_bundle(decode_bundle(data))) == data


def all_runs(buffer: SendBuffer, rng: random.Random) -> list[SegmentRun]:
    flight, runs = Flight(), []
    while (run := buffer.next_run(rng.randint(1, 9), 0.0)) is not None:
        flight.launch(run, 0.0)
        runs.append(run)
    return runs


def packets_of(runs: list[SegmentRun]) -> list[bytes]:
    return [b"".join(packet) for run in runs for packet in run.packets(1, 2, 3)]


@given(st.lists(st.integers(0, 900), max_size=20), st.integers(0, 1_000))
def test_what_is_cut_in_segments_comes_together_in_any_order(sizes: list[int], seed: int) -> None:
    rng = random.Random(seed)
    messages = [rng.randbytes(size) for size in sizes]
    buffer = SendBuffer(1_000, limit=100_000, room=ROOM)
    for message in messages:
        assert buffer.add(message, None)
    runs = all_runs(buffer, rng)
    packets = packets_of(runs)
    assert sum(run.size for run in runs) == sum(len(packet) - BUNDLE.size for packet in packets)
    assert all(len(packet) <= ROOM + BUNDLE.size for packet in packets)
    rng.shuffle(packets)
    window = ReceiveWindow(ChannelConfig(), ReceiveBudget(100_000))
    received: list[Buffer] = []
    for packet in packets:
        if packet[0] == PacketType.BUNDLE:
            received += decode_bundle(packet[BUNDLE.size :])
            continue
        *_, number, length, place = FRAGMENT.unpack_from(packet)
        received += window.take_part(number, length, place, packet[FRAGMENT.size :])
    assert sorted(received) == sorted(messages)
    assert window.held == 0


@given(st.lists(st.binary(max_size=900), max_size=20), st.data())
def test_every_charged_byte_is_given_back_and_every_callback_called_once(
    messages: list[bytes], data: st.DataObject
) -> None:
    buffer, flight = SendBuffer(1_000, limit=100_000, room=ROOM), Flight()
    called: list[tuple[int, bool]] = []
    for number, message in enumerate(messages):
        buffer.add(message, lambda arrived, number=number: called.append((number, arrived)))  # type: ignore[misc]
    for _ in range(data.draw(st.integers(0, 30))):
        run = buffer.next_run(data.draw(st.integers(1, 9)), 0.0)
        if run is not None:
            flight.launch(run, 0.0)
    if data.draw(st.booleans()):
        flight.lose_all()
        for _ in range(data.draw(st.integers(0, 5))):
            if flight.lost:
                flight.relaunch(data.draw(st.integers(1, 9)), 1.0)
    sent = flight.next_number
    for _ in range(data.draw(st.integers(0, 5))):
        upto = data.draw(st.integers(0, sent))
        bits = data.draw(st.integers(0, (1 << sent - upto) - 1)) & ~1
        for landed in flight.acknowledge(upto, bits):
            buffer.acknowledged(*landed)
    lost = buffer.lose(flight.give_up()) + buffer.lose_waiting()
    for callback, arrived in buffer.outcomes:
        callback(arrived)
    assert buffer.used == 0
    assert flight.size == 0
    assert sorted(number for number, _ in called) == list(range(len(messages)))
    assert sum(not arrived for _, arrived in called) == lost


@given(st.integers(1, 5_000), st.integers(1, 40), st.data())
def test_what_is_sent_again_is_what_was_sent(size: int, most: int, data: st.DataObject) -> None:
    buffer, flight = SendBuffer(5_000, limit=100_000, room=ROOM), Flight()
    buffer.add(random.Random(size).randbytes(size), None)
    sent: dict[int, bytes] = {}
    while (run := buffer.next_run(most, 0.0)) is not None:
        flight.launch(run, 0.0)
        sent |= dict(enumerate(packets_of([run]), run.first))
    arrived = data.draw(st.sets(st.integers(0, flight.next_number - 1)))
    flight.acknowledge(0, sum(1 << number for number in arrived))
    flight.lose_all()
    assert flight.size == 0
    again: dict[int, bytes] = {}
    while flight.lost:
        run = flight.relaunch(data.draw(st.integers(1, 9)), 1.0)
        assert run.resent
        again |= dict(enumerate(packets_of([run]), run.first))
    assert again == {number: sent[number] for number in sent if number not in arrived}
    assert flight.size == sum(len(packet) - BUNDLE.size for packet in again.values())


def test_a_segment_that_later_ones_of_its_run_overtook_is_found_lost() -> None:
    buffer, flight = SendBuffer(5_000, limit=100_000, room=ROOM), Flight()
    buffer.add(bytes(2_000), None)
    run = buffer.next_run(99, 0.0)
    assert run is not None
    flight.launch(run, 0.0)
    flight.acknowledge(2, 0b1111_0000)
    assert flight.find_lost(0.05, patience=0.1) == (0, 0.1)
    latest, look_again = flight.find_lost(0.1, patience=0.1)
    assert (latest, look_again) == (run.transmission + 5, None)
    again = flight.relaunch(99, 0.2)
    assert (again.first, again.segments) == (2, 4)


def test_a_full_part_fills_its_datagram() -> None:
    max_body = 1_373
    buffer, flight = SendBuffer(100_000, limit=100_000, room=segment_room(max_body)), Flight()
    assert buffer.add(bytes(50_000), None)
    run = buffer.next_run(99, 0.0)
    assert run is not None
    flight.launch(run, 0.0)
    assert [len(packet) for packet in packets_of([run])[:-1]] == [max_body] * (run.segments - 1)


@given(st.integers(0, 2 * ROOM))
def test_a_message_that_fits_a_segment_is_not_cut(size: int) -> None:
    buffer = SendBuffer(1_000, limit=100_000, room=ROOM)
    buffer.add(bytes(size), None)
    run = buffer.next_run(9, 0.0)
    assert run is not None
    assert bool(run.messages) == (size <= bundle_room(ROOM))


def test_a_full_buffer_says_no_and_keeps_nothing() -> None:
    buffer = SendBuffer(1_000, limit=1_000, room=ROOM)
    assert buffer.add(bytes(900), None)
    assert not buffer.add(bytes(100), None)
    assert len(buffer.waiting) == 1


def test_a_message_that_was_begun_can_be_completed_whatever_memory_is_left() -> None:
    budget = ReceiveBudget(1_500)
    reassembly = Reassembly(10_000, budget)
    assert reassembly.add(0, 1_000, 0, bytes(500)) is None
    with pytest.raises(ChannelRefused, match="receive_memory_full"):
        reassembly.add(1, 1_000, 0, bytes(500))
    complete = reassembly.add(0, 1_000, 500, bytes(500))
    assert complete == (bytes(1_000), 1_000 + 2 * PART_HEAD_BYTES)
    assert budget.used == 0


def test_fragments_that_disagree_on_the_length_are_refused() -> None:
    reassembly = Reassembly(10_000, ReceiveBudget(10_000))
    reassembly.add(0, 1_000, 0, bytes(500))
    with pytest.raises(ChannelRefused, match="malformed"):
        reassembly.add(0, 999, 500, bytes(499))


@given(st.integers(0, 2**40), st.integers(-(2**31), 2**31 - 1))
def test_a_number_is_known_by_its_lowest_bits_to_those_who_know_where_it_is(
    near: int, away: int
) -> None:
    assert whole((near + away) & LOW, near) == near + away


def test_the_parts_of_a_withdrawn_message_are_let_go_and_later_ones_are_not_kept() -> None:
    budget = ReceiveBudget(10_000)
    window = ReceiveWindow(ChannelConfig(), budget)
    window.take_part(0, 300, 0, bytes(100))
    assert (window.held, budget.used) == (100 + PART_HEAD_BYTES, 300)
    window.take_rest(2, 100 + PART_HEAD_BYTES, 2, b"\0\0")
    window.take_part(1, 300, 1, bytes(100))
    assert (window.held, budget.used, window.next) == (0, 0, 3)
