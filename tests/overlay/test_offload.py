"""Several datagrams in one system call: the same datagrams on the wire, and a plain way without."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from overlay import loops
from overlay.transport.config import SocketConfig
from overlay.transport.frame import MAX_TRAIN
from overlay.transport.udp import UDP_SEGMENT
from overlay.virtual import Network
from tests.overlay.endpoint_parties import (
    KEY,
    Party,
    Runner,
    acquainted,
    on_every_loop,
    party,
    two,
)


def can_offload() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1400)
        except OSError:
            return False
        return sys.platform == "linux"


needs_offload = pytest.mark.skipif(not can_offload(), reason="this kernel cuts no trains")
on_real_loops = pytest.mark.parametrize("run", [asyncio.run, loops.run], ids=["asyncio", "uvloop"])
sealed_or_not = pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])


async def exchange(alice: Party, bob: Party, count: int) -> list[bytes]:
    """Send full datagrams and a last one that is not; they arrive in order on loopback."""
    full = alice.endpoint.max_body
    bodies = [number.to_bytes(2, "big") * (full // 2) + bytes(full % 2) for number in range(count)]
    for body in (*bodies, b"the last"):
        alice.send(bob, body)
    await bob.has(count + 1)
    return [*bodies, b"the last"]


@needs_offload
@on_real_loops
@sealed_or_not
@pytest.mark.parametrize("size", [600, 1400, 16_000])
def test_trains_go_through_one_call_and_arrive_as_they_were(
    run: Runner, keys: tuple[bytes, ...], size: int
) -> None:
    async def main() -> None:
        async with two(keys=keys, datagram_size=size) as (alice, bob):
            await acquainted(alice, bob)
            before = alice.count("datagrams_sent")
            sent = await exchange(alice, bob, 100)
            assert bob.bodies == sent
            train = min(65_507 // size, MAX_TRAIN)
            assert alice.endpoint.transport.train == train
            assert alice.count("datagrams_sent") - before == 101
            assert alice.count("datagrams_sent_in_trains") >= 101 // train * train
            assert bob.count("datagrams_received") - before == 101
            assert bob.count("datagrams_received_in_trains") > 0

    run(main())


@on_every_loop
@pytest.mark.parametrize(("sender", "receiver"), [(False, True), (True, False), (False, False)])
def test_those_who_offload_and_those_who_do_not_understand_each_other(
    run: Runner, sender: bool, receiver: bool
) -> None:
    async def main() -> None:
        async with (
            party(socket=SocketConfig(offload=sender)) as alice,
            party(socket=SocketConfig(offload=receiver)) as bob,
        ):
            assert await exchange(alice, bob, 100) == bob.bodies
            if not sender:
                assert alice.count("datagrams_sent_in_trains") == 0

    run(main())


def test_the_same_datagrams_are_on_the_wire_with_and_without() -> None:
    def wire(offload: bool) -> list[bytes]:
        net = Network(seed=4)
        carried: list[bytes] = []

        async def main() -> None:
            with net.capture() as packets:
                async with two(socket=SocketConfig(offload=offload)) as (alice, bob):
                    await exchange(alice, bob, 60)
            carried.extend(packet.data for packet in packets)

        net.run(main())
        return carried

    assert len(wire(True)) == 61
    assert wire(True) == wire(False)


@on_every_loop
@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.EMSGSIZE])
def test_a_kernel_that_refuses_trains_is_sent_datagrams_one_by_one(run: Runner, code: int) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            alice.endpoint.transport._failed(OSError(code, "refused"))  # type: ignore[attr-defined]
            assert alice.endpoint.transport.train == 1
            assert await exchange(alice, bob, 50) == bob.bodies
            assert alice.count("datagrams_sent_in_trains") == 0
            assert alice.count("socket_errors") == {errno.errorcode[code]: 1}

    run(main())


def test_a_kernel_that_knows_no_offload_is_not_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, level: int, option: int, value: int) -> None:
        raise OSError(errno.ENOPROTOOPT, "unknown option")

    from overlay.virtual.transport import VirtualSocket

    monkeypatch.setattr(VirtualSocket, "setsockopt", refuse)
    run: Callable[[Any], None] = Network(seed=1).run

    async def main() -> None:
        async with two() as (alice, bob):
            assert alice.endpoint.transport.train == 1
            assert await exchange(alice, bob, 50) == bob.bodies

    run(main())
