"""Nothing at an endpoint grows without bound, and what there is no room for is counted."""

from __future__ import annotations

import asyncio
import itertools

from overlay.identity import Identity
from overlay.transport.config import SocketConfig
from overlay.transport.endpoint import WORK_A_TURN
from overlay.transport.frame import MAX_FRAMES, FrameKind, PlainEnvelope, frame_head
from tests.overlay.endpoint_parties import (
    Runner,
    on_every_loop,
    party,
    raw_send,
    two,
)


@on_every_loop
def test_too_much_at_once_is_dropped_and_counted_and_drained_waits_for_space(run: Runner) -> None:
    async def main() -> None:
        async with two(socket=SocketConfig(outgoing_limit=100_000)) as (alice, bob):
            body = b"x" * 1000
            for _ in range(200):
                alice.send(bob, body)
            dropped = alice.count("dropped_out", "queue_full")
            assert dropped == 200 - 100_000 // 1003
            await alice.endpoint.drained()
            for _ in range(40):
                alice.send(bob, body)
            assert alice.count("dropped_out", "queue_full") == dropped
            while alice.count("frames_sent") < 240 - dropped:
                await alice.endpoint.drained()
                await asyncio.sleep(0)

    run(main())


def test_an_endpoint_waits_until_its_socket_can_send_again() -> None:
    async def main() -> None:
        async with two(socket=SocketConfig(outgoing_limit=10_000)) as (alice, bob):
            protocol = alice.endpoint.transport._protocol  # type: ignore[attr-defined]
            protocol.pause_writing()
            for _ in range(7):
                alice.send(bob, b"x" * 1000)
            waiting = asyncio.ensure_future(alice.endpoint.drained())
            for _ in range(5):
                await asyncio.sleep(0)
            assert alice.count("datagrams_sent") == 0
            assert not waiting.done()
            protocol.resume_writing()
            await waiting
            await bob.has(7)

    asyncio.run(main())


def test_closing_lets_go_of_those_who_wait_for_space() -> None:
    async def main() -> None:
        async with two(socket=SocketConfig(outgoing_limit=10_000)) as (alice, bob):
            alice.endpoint.transport._protocol.pause_writing()  # type: ignore[attr-defined]
            for _ in range(9):
                alice.send(bob, b"x" * 1000)
            waiting = asyncio.ensure_future(alice.endpoint.drained())
            await asyncio.sleep(0)
            assert not waiting.done()
            await alice.endpoint.close()
            async with asyncio.timeout(10):
                await waiting

    asyncio.run(main())


@on_every_loop
def test_more_than_a_turn_can_handle_waits_within_a_bound(run: Runner) -> None:
    async def main() -> None:
        async with party(socket=SocketConfig(incoming_limit=10)) as alice:
            datagram = PlainEnvelope(Identity.create().id).wrap(
                [frame_head(FrameKind.DATAGRAM, 1), b"x"]
            )
            now = WORK_A_TURN // 2
            for _ in range(now + 30):
                alice.endpoint.receive(datagram, ("127.0.0.1", 5))
            assert len(alice.received) == now
            await alice.has(now + 10)
            assert alice.count("receive_queue_overflows") == 20
            await raw_send(alice, datagram)
            assert len(alice.received) == now + 11

    run(main())


@on_every_loop
def test_receiving_gives_others_a_turn(run: Runner) -> None:
    async def main() -> None:
        async with party() as alice:
            datagram = PlainEnvelope(Identity.create().id).wrap(
                [frame_head(FrameKind.DATAGRAM, 1), b"x"]
            )
            for _ in range(3 * WORK_A_TURN):
                alice.endpoint.receive(datagram, ("127.0.0.1", 5))
            seen = [len(alice.received)]
            while seen[-1] < 3 * WORK_A_TURN:
                await asyncio.sleep(0)
                seen.append(len(alice.received))
            assert max(after - before for before, after in itertools.pairwise(seen)) <= WORK_A_TURN

    run(main())


@on_every_loop
def test_tiny_frames_cause_bounded_work_a_datagram_and_a_turn(run: Runner) -> None:
    async def main() -> None:
        async with party() as alice:
            envelope = PlainEnvelope(Identity.create().id)
            alice.endpoint.receive(
                envelope.wrap([frame_head(FrameKind.DATAGRAM, 0)] * 21_000), ("127.0.0.1", 5)
            )
            assert alice.received == []
            assert alice.count("dropped_in") == {"too_many_frames": 1}
            datagram = envelope.wrap([frame_head(FrameKind.DATAGRAM, 0)] * MAX_FRAMES)
            for _ in range(8):
                alice.endpoint.receive(datagram * 60, ("127.0.0.1", 5))
            before = 0
            while len(alice.received) < 8 * 60 * MAX_FRAMES:
                assert len(alice.received) - before <= WORK_A_TURN + MAX_FRAMES
                before = len(alice.received)
                await asyncio.sleep(0)

    run(main())
