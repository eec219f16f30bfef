"""The outbox gathers frames by destination, keeps their order and stays within its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Address
from overlay.transport.frame import (
    FRAME_HEAD_BYTES,
    MAX_FRAMES,
    RESET_PACKET,
    Outbox,
    split_frames,
)

ROOM, LIMIT = 20, 70
HERE, THERE = Address("127.0.0.1", 1), Address("127.0.0.2", 2)

puts = st.tuples(
    st.sampled_from([HERE, THERE]), st.integers(0, 255), st.binary(max_size=ROOM - FRAME_HEAD_BYTES)
)


@given(st.lists(st.none() | puts, max_size=60))
def test_every_frame_leaves_once_in_order_within_the_room_and_the_limit(
    steps: list[tuple[Address, int, bytes] | None],
) -> None:
    outbox = Outbox(ROOM, ROOM, LIMIT)
    queued: dict[Address, list[tuple[int, bytes]]] = {HERE: [], THERE: []}
    left: dict[Address, list[tuple[int, bytes]]] = {HERE: [], THERE: []}

    def take() -> None:
        to, batches = outbox.take(3)
        assert 1 <= len(batches) <= 3
        assert all(batch.size == ROOM for batch in batches[:-1])
        for batch in batches:
            frames = split_frames(b"".join(batch.parts), 0)
            assert batch.size == len(b"".join(batch.parts)) <= ROOM
            assert batch.frames == len(frames)
            left[to] += frames

    for step in steps:
        if step is None:
            if outbox.waiting:
                take()
            continue
        to, kind, body = step
        fits = outbox.size + FRAME_HEAD_BYTES + len(body) <= LIMIT
        assert outbox.put(to, kind, (body,)) is fits
        if fits:
            queued[to].append((kind, body))
        assert outbox.size <= LIMIT
    while outbox.waiting:
        take()
    assert left == queued
    assert outbox.size == 0


def test_small_frames_to_one_address_share_a_datagram() -> None:
    outbox = Outbox(ROOM, ROOM, LIMIT)
    for number in range(5):
        outbox.put(HERE, 1, (bytes([number]),))
        outbox.put(THERE, 1, (bytes([number]),))
    taken = [outbox.take(9), outbox.take(9)]
    assert [(to, [batch.frames for batch in batches]) for to, batches in taken] == [
        (HERE, [5]),
        (THERE, [5]),
    ]
    assert not outbox.waiting


def test_full_datagrams_to_one_address_leave_in_trains_and_addresses_take_turns() -> None:
    outbox = Outbox(ROOM, ROOM, 20 * ROOM)
    for to in (HERE, THERE):
        for _ in range(5):
            outbox.put(to, 1, (bytes(9), bytes(ROOM - FRAME_HEAD_BYTES - 9)))
        outbox.put(to, 1, (b"rest",))
    order = []
    while outbox.waiting:
        to, batches = outbox.take(4)
        order.append((to, [batch.size for batch in batches]))
    first, second = [ROOM] * 4, [ROOM, 7]
    assert order == [(HERE, first), (THERE, first), (HERE, second), (THERE, second)]


def test_a_datagram_takes_a_bounded_number_of_frames() -> None:
    outbox = Outbox(10_000, 10_000, 10_000)
    for _ in range(MAX_FRAMES + 1):
        outbox.put(HERE, 1, ())
    assert [outbox.take(1)[1][0].frames for _ in range(2)] == [MAX_FRAMES, 1]


def test_a_datagram_that_left_takes_no_more_frames() -> None:
    outbox = Outbox(ROOM, ROOM, LIMIT)
    outbox.put(HERE, 1, (b"first",))
    _, (batch,) = outbox.take(1)
    outbox.put(HERE, 1, (b"second",))
    assert batch.frames == 1
    assert outbox.waiting


def test_a_full_outbox_says_so_until_something_leaves() -> None:
    outbox = Outbox(ROOM, ROOM, LIMIT)
    body = bytes(ROOM - FRAME_HEAD_BYTES)
    assert [outbox.put(HERE, 1, (body,)) for _ in range(5)] == [True, True, True, False, False]
    assert outbox.size == 3 * ROOM
    outbox.take(1)
    assert outbox.put(HERE, 1, (body,))


def test_a_datagram_that_need_not_name_its_sender_has_room_for_more() -> None:
    outbox = Outbox(ROOM, ROOM + 5, 10 * ROOM)
    packet = bytes((5,)) + bytes(ROOM + 4 - FRAME_HEAD_BYTES)
    for kind, body in ((1, b"x"), (3, packet), (3, packet), (1, b"y")):
        assert outbox.put(HERE, kind, (body,))
    taken = []
    while outbox.waiting:
        taken.append([(batch.size, batch.is_unnamed) for batch in outbox.take(3)[1]])
    full = (ROOM + 5, True)
    # The packet goes into no datagram that names its sender, and a train is of full ones.
    assert taken == [[(4, False)], [full, full, (4, False)]]


def test_a_reset_that_does_not_name_its_sender_travels_alone() -> None:
    """What stood behind it would be taken for the lost peer's, whose address another process may have."""
    outbox = Outbox(ROOM, ROOM + 5, 10 * ROOM)
    reset, acknowledgement = bytes((RESET_PACKET, *range(8))), bytes((5, *range(8)))
    for body in (reset, reset, acknowledgement, b"\x01"):
        assert outbox.put(HERE, 3, (body,))
    alone, packet = FRAME_HEAD_BYTES + len(reset), FRAME_HEAD_BYTES + len(acknowledgement)
    taken = []
    while outbox.waiting:
        taken.append([batch.size for batch in outbox.take(8)[1]])
    assert taken == [[alone], [alone], [packet + FRAME_HEAD_BYTES + 1]]
