"""The outbox gathers frames by destination, keeps their order and stays within its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Address
from overlay.frame import FRAME_HEAD_BYTES, split_frames
from overlay.outbox import Outbox

ROOM, LIMIT = 20, 70
HERE, THERE = Address("127.0.0.1", 1), Address("127.0.0.2", 2)

puts = st.tuples(
    st.sampled_from([HERE, THERE]), st.integers(0, 255), st.binary(max_size=ROOM - FRAME_HEAD_BYTES)
)


@given(st.lists(st.none() | puts, max_size=60))
def test_every_frame_leaves_once_in_order_within_the_room_and_the_limit(
    steps: list[tuple[Address, int, bytes] | None],
) -> None:
    outbox = Outbox(ROOM, LIMIT)
    queued: dict[Address, list[tuple[int, bytes]]] = {HERE: [], THERE: []}
    left: dict[Address, list[tuple[int, bytes]]] = {HERE: [], THERE: []}

    def take() -> None:
        batch = outbox.take()
        frames = split_frames(b"".join(batch.parts), 0)
        assert batch.size == len(b"".join(batch.parts)) <= ROOM
        assert batch.frames == len(frames)
        left[batch.to] += frames

    for step in steps:
        if step is None:
            if len(outbox):
                take()
            continue
        to, kind, body = step
        fits = outbox.size + FRAME_HEAD_BYTES + len(body) <= LIMIT
        assert outbox.put(to, kind, body) is fits
        if fits:
            queued[to].append((kind, body))
        assert outbox.size <= LIMIT
    while len(outbox):
        take()
    assert left == queued
    assert outbox.size == 0


def test_small_frames_to_one_address_share_a_datagram() -> None:
    outbox = Outbox(ROOM, LIMIT)
    for number in range(5):
        outbox.put(HERE, 1, bytes([number]))
        outbox.put(THERE, 1, bytes([number]))
    assert len(outbox) == 2
    assert [outbox.take().frames, outbox.take().frames] == [5, 5]


def test_a_datagram_that_left_takes_no_more_frames() -> None:
    outbox = Outbox(ROOM, LIMIT)
    outbox.put(HERE, 1, b"first")
    batch = outbox.take()
    outbox.put(HERE, 1, b"second")
    assert batch.frames == 1
    assert len(outbox) == 1


def test_a_full_outbox_says_so_until_something_leaves() -> None:
    outbox = Outbox(ROOM, LIMIT)
    body = bytes(ROOM - FRAME_HEAD_BYTES)
    assert [outbox.put(HERE, 1, body) for _ in range(5)] == [True, True, True, False, False]
    assert outbox.size == 3 * ROOM
    outbox.take()
    assert outbox.put(HERE, 1, body)
