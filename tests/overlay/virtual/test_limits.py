"""Bandwidth makes datagrams wait, and a full receive buffer loses them, as in a kernel."""

from __future__ import annotations

import asyncio
import socket

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency, Network

from .helpers import listen

ONE, TWO, THREE = "127.0.0.2", "127.0.0.3", "127.0.0.4"
PAYLOAD = bytes(972)  # with 28 bytes of headers: 1,000 bytes on the link


async def flood(net: Network, count: int) -> tuple[list[float], list[str]]:
    one, two = await listen(ONE), await listen(TWO)
    for _ in range(count):
        one.transport.sendto(PAYLOAD, tuple(two.address))
    await asyncio.sleep(1000)
    return [round(moment, 6) for moment, _, _ in two.received], one.calls


def test_a_narrow_uplink_sends_one_datagram_after_another() -> None:
    net = Network(seed=1, latency=Latency.constant(0.5))
    net.limit(ONE, bandwidth=1000)
    arrivals, _ = net.run(flood(net, 5))
    assert arrivals == [1.5, 2.5, 3.5, 4.5, 5.5]


def test_a_narrow_downlink_takes_in_one_datagram_after_another() -> None:
    net = Network(seed=1, latency=Latency.constant(0.5))
    net.limit(TWO, bandwidth=1000)
    arrivals, _ = net.run(flood(net, 5))
    assert arrivals == [1.5, 2.5, 3.5, 4.5, 5.5]


def test_a_bandwidth_for_all_counts_on_both_sides_at_the_same_time() -> None:
    net = Network(seed=1, latency=Latency.constant(0.5), bandwidth=1000)
    arrivals, _ = net.run(flood(net, 3))
    assert arrivals == [2.5, 3.5, 4.5]
    net = Network(seed=1, latency=Latency.constant(0.5), bandwidth=1000)
    net.limit(ONE, None)
    net.limit(TWO, None)
    arrivals, _ = net.run(flood(net, 3))
    assert arrivals == [0.5, 0.5, 0.5]


def test_a_full_receive_buffer_loses_what_is_too_much() -> None:
    net = Network(seed=1, receive_buffer=20_000)
    net.limit(TWO, bandwidth=1000)
    arrivals, _ = net.run(flood(net, 50))
    # 972 bytes and 1,024 of bookkeeping each: ten fit
    assert len(arrivals) == 10
    assert net.stats.lost == net.stats.lost_by["overflow"] == 40


def test_what_was_handed_over_makes_room() -> None:
    async def main() -> int:
        one, two = await listen(ONE), await listen(TWO)
        for _ in range(50):
            one.transport.sendto(PAYLOAD, tuple(two.address))
            await asyncio.sleep(1.01)
        return len(two.received)

    net = Network(seed=1, receive_buffer=20_000)
    net.limit(TWO, bandwidth=1000)
    assert net.run(main()) == 50


def test_a_slow_host_overflows_too() -> None:
    net = Network(seed=1, receive_buffer=20_000)
    net.slow(TWO, factor=10)
    arrivals, _ = net.run(flood(net, 50))
    assert len(arrivals) == 10
    assert net.stats.lost_by["overflow"] == 40


def test_the_buffer_is_granted_as_linux_does() -> None:
    async def main() -> tuple[int, int, int]:
        two = await listen(TWO)
        sock = two.transport.get_extra_info("socket")
        before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        one = await listen(ONE)
        for _ in range(50):
            one.transport.sendto(PAYLOAD, tuple(two.address))
        await asyncio.sleep(1000)
        return before, granted, len(two.received)

    net = Network(seed=1, receive_buffer=20_000)
    net.limit(TWO, bandwidth=1000)
    assert net.run(main()) == (20_000, 40_000, 20)


def test_a_sender_ahead_of_its_uplink_is_told_to_pause_and_to_resume() -> None:
    net = Network(seed=1)
    net.limit(ONE, bandwidth=10_000)
    arrivals, calls = net.run(flood(net, 100))
    assert len(arrivals) == 100
    assert calls == ["made", "pause", "resume"]


def test_packets_queued_at_a_host_die_with_it() -> None:
    async def main() -> tuple[int, int]:
        one, two, three = await listen(ONE), await listen(TWO), await listen(THREE)
        for _ in range(10):
            one.transport.sendto(PAYLOAD, tuple(two.address))
            two.transport.sendto(PAYLOAD, tuple(three.address))
        await asyncio.sleep(4.5)
        net.crash(TWO)
        net.restart(TWO)
        reborn = await listen(TWO, two.address.port)
        await asyncio.sleep(100)
        assert reborn.received == []
        return len(two.received), len(three.received)

    net = Network(seed=1)
    net.limit(TWO, bandwidth=1000)
    assert net.run(main()) == (4, 4)
    assert net.stats.lost_by["crash"] == 12


@pytest.mark.parametrize("bandwidth", [0, -1, float("nan")])
def test_a_bandwidth_of_nothing_is_refused(bandwidth: float) -> None:
    with pytest.raises(UsageError, match="bandwidth is bytes a second"):
        Network(seed=1, bandwidth=bandwidth)
