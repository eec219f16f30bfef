"""A host crashes without a goodbye, comes back without memory, is slow, and has a clock of its own."""

from __future__ import annotations

import asyncio
import errno
import gc
import time
from collections.abc import AsyncIterator

import asyncio_dgram
import pytest

from overlay.errors import UsageError
from overlay.virtual import HostCrashed, Latency, Network

from .helpers import listen

ONE, TWO, THREE = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def test_a_crash_stops_tasks_timers_and_sockets_without_a_goodbye() -> None:
    goodbyes: list[str] = []
    ticks: list[float] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(1000):
                await asyncio.sleep(1)
                yield number
        finally:
            goodbyes.append("generator")

    async def count() -> None:
        async for _ in numbers():
            ticks.append(net.now)

    async def program(target: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        stream = await asyncio_dgram.bind((TWO, 0))
        child = asyncio.create_task(count())
        loop.call_later(20, goodbyes.append, "timer")
        loop.call_soon(loop.call_later, 15, goodbyes.append, "timer of a callback")
        try:
            while True:
                await stream.send(b"alive", target)
                await asyncio.sleep(1)
        finally:
            child.cancel()
            goodbyes.append("finally")
            await stream.send(b"goodbye", target)

    async def main() -> list[bytes]:
        observer = await listen(ONE)
        task = net.spawn(TWO, program(tuple(observer.address)), name="the program")
        await asyncio.sleep(3.5)
        net.crash(TWO)
        await asyncio.sleep(100)
        with pytest.raises(HostCrashed, match=f"the program ran on {TWO}"):
            await task
        return observer.payloads

    net = Network(seed=1)
    assert net.run(main()) == [b"alive"] * 4
    assert ticks == [1, 2, 3]
    assert goodbyes == []
    assert net.unhandled == []


def test_the_dead_are_let_go_when_the_next_network_runs() -> None:
    goodbyes: list[str] = []

    async def program() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            goodbyes.append("late")
            await asyncio.sleep(1)
            await asyncio.sleep(1)

    async def main(net: Network) -> None:
        net.spawn(TWO, program())
        await asyncio.sleep(1)
        net.crash(TWO)

    async def nothing() -> None: ...

    net = Network(seed=1)
    net.run(main(net))
    assert goodbyes == []
    Network(seed=2).run(nothing())
    assert goodbyes == ["late"]


def test_what_callbacks_of_a_crashed_socket_began_dies_too() -> None:
    """Programs that are not spawned belong to a host by the address of their sockets."""
    done: list[str] = []

    class Slow(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            asyncio.get_running_loop().call_later(5, done.append, data.decode())
            self.task = asyncio.ensure_future(self.answer())

        async def answer(self) -> None:
            await asyncio.sleep(5)
            done.append("task")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Slow, local_addr=(TWO, 0))
        sender = await listen(ONE)
        sender.transport.sendto(b"timer", transport.get_extra_info("sockname"))
        await asyncio.sleep(1)
        net.crash(TWO)
        await asyncio.sleep(10)

    net = Network(seed=1)
    net.run(main())
    assert done == []


def test_what_was_sent_before_the_crash_arrives_and_what_comes_after_it_does_not() -> None:
    async def main() -> tuple[list[bytes], list[bytes]]:
        one, two = await listen(ONE), await listen(TWO)
        two.transport.sendto(b"last words", tuple(one.address))
        one.transport.sendto(b"too late", tuple(two.address))
        await asyncio.sleep(0.5)
        net.crash(TWO)
        two.transport.sendto(b"from the grave", tuple(one.address))
        two.transport.close()
        await asyncio.sleep(5)
        assert two.calls == ["made"]
        return one.payloads, two.payloads

    net = Network(seed=1, latency=Latency.constant(1))
    assert net.run(main()) == ([b"last words"], [])
    assert net.stats.lost_by["crash"] == 1
    assert net.stats.sent == 2


def test_a_task_may_crash_its_own_host_and_ends_at_its_next_await() -> None:
    steps: list[str] = []

    async def suicide() -> None:
        net.crash(TWO)
        steps.append("until the next await")
        with pytest.raises(OSError, match="is down"):
            await listen(TWO)
        await asyncio.sleep(1)
        steps.append("never")

    async def last_statement() -> None:
        net.crash(THREE)

    async def main() -> None:
        with pytest.raises(HostCrashed):
            await net.spawn(TWO, suicide())
        await asyncio.wait([net.spawn(THREE, last_statement())])

    net = Network(seed=1)
    net.run(main())
    assert steps == ["until the next await"]
    assert net.unhandled == []


def test_a_restarted_host_is_empty_and_its_former_tasks_stay_dead() -> None:
    async def serve(answer: bytes) -> None:
        stream = await asyncio_dgram.bind((TWO, 4000))
        while True:
            _, client = await stream.recv()
            await stream.send(answer, client)

    async def main() -> list[bytes]:
        client = await listen(ONE)
        net.spawn(TWO, serve(b"first life"))
        await asyncio.sleep(1)
        client.transport.sendto(b"?", (TWO, 4000))
        await asyncio.sleep(1)
        net.crash(TWO)
        with pytest.raises(UsageError, match="restart it"):
            net.spawn(TWO, serve(b""))
        with pytest.raises(OSError, match="is down") as refused:
            await listen(TWO)
        assert refused.value.errno == errno.ENETDOWN
        net.restart(TWO)
        client.transport.sendto(b"?", (TWO, 4000))
        await asyncio.sleep(1)
        net.spawn(TWO, serve(b"second life"))
        await asyncio.sleep(1)
        client.transport.sendto(b"?", (TWO, 4000))
        await asyncio.sleep(1)
        net.restart(TWO)  # in place of a crash
        client.transport.sendto(b"?", (TWO, 4000))
        await asyncio.sleep(1)
        return client.payloads

    net = Network(seed=1)
    assert net.run(main()) == [b"first life", b"second life"]


def test_a_crash_is_no_affair_of_other_hosts() -> None:
    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(net.now)

    async def main() -> None:
        net.spawn(ONE, tick())
        net.spawn(TWO, tick())
        await asyncio.sleep(1.5)
        net.crash(TWO)
        net.crash(TWO)
        await asyncio.sleep(2)

    ticks: list[float] = []
    net = Network(seed=1)
    net.run(main())
    assert ticks == [1, 1, 2, 3]


def test_a_program_that_nobody_holds_does_not_go_with_the_garbage() -> None:
    ended: list[str] = []

    async def program() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def main() -> None:
        net.spawn(TWO, program())
        await asyncio.sleep(1)
        gc.collect()
        assert ended == []

    net = Network(seed=1)
    net.run(main())
    assert ended == ["ended"]


def test_a_slow_host_handles_datagrams_and_timers_late_and_one_by_one() -> None:
    async def program(fired: list[float]) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            loop.call_later(1, lambda: fired.append(round(net.now, 6)))

    async def main() -> tuple[list[float], list[float]]:
        one, two = await listen(ONE), await listen(TWO)
        fired: list[float] = []
        net.slow(TWO, factor=20)
        for _ in range(5):
            one.transport.sendto(b"x", tuple(two.address))
        net.spawn(TWO, program(fired))
        await asyncio.sleep(2)
        net.slow(TWO, factor=1)
        one.transport.sendto(b"fast again", tuple(two.address))
        await asyncio.sleep(1)
        return [round(moment, 6) for moment, _, _ in two.received], fired

    net = Network(seed=1)
    handled, fired = net.run(main())
    assert handled == [0.003, 0.005, 0.007, 0.009, 0.011, 2.001]
    assert fired == [1.002, 1.004, 1.006]


def test_a_timer_cancelled_while_it_waits_for_a_slow_host_does_not_fire() -> None:
    fired: list[str] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1, lambda: second.cancel())
        second = loop.call_later(1, fired.append, "second")

    async def main() -> None:
        net.slow(TWO, factor=20)
        net.spawn(TWO, program())
        await asyncio.sleep(2)

    net = Network(seed=1)
    net.run(main())
    assert fired == []


def test_a_skewed_clock_shows_its_own_time_and_timers_follow_it() -> None:
    async def program() -> dict[str, float]:
        loop = asyncio.get_running_loop()
        shown, began = loop.time(), net.now
        wall = time.time()
        await asyncio.sleep(10)
        return {
            "shown": loop.time() - shown,
            "true": net.now - began,
            "wall": time.time() - wall,
            "start": shown,
        }

    async def main() -> tuple[dict[str, float], dict[str, float], float]:
        await asyncio.sleep(100)
        net.skew(TWO, offset=1000, rate=1.25)
        skewed = await net.spawn(TWO, program())
        exact = await net.spawn(ONE, program())
        return skewed, exact, asyncio.get_running_loop().time()

    net = Network(seed=1)
    skewed, exact, end = net.run(main())
    assert skewed == pytest.approx({"shown": 10, "true": 8, "wall": 10, "start": 1125})
    assert exact == pytest.approx({"shown": 10, "true": 10, "wall": 10, "start": 108})
    assert end == net.now == pytest.approx(118)


@pytest.mark.parametrize("factor", [0.5, 0, float("nan")])
def test_a_host_cannot_be_hurried(factor: float) -> None:
    with pytest.raises(UsageError, match="factor of 1 or more"):
        Network(seed=1).slow(TWO, factor)


def test_a_clock_cannot_stand_still() -> None:
    with pytest.raises(UsageError, match="rate is above 0"):
        Network(seed=1).skew(TWO, rate=0)


def test_a_program_binds_the_address_of_its_host_and_no_other() -> None:
    async def program() -> tuple[object, object, object]:
        with pytest.raises(OSError, match=f"{ONE} is not an address of the host {TWO}"):
            await listen(ONE)
        anywhere = await listen("0.0.0.0", 4000)
        client, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(TWO, 4000)
        )
        client.sendto(b"who am I?")
        await asyncio.sleep(1)
        return anywhere.address, client.get_extra_info("sockname")[0], anywhere.received[0][2][0]

    async def main() -> None:
        assert await net.spawn(TWO, program()) == (("0.0.0.0", 4000), TWO, TWO)
        unspawned = await listen("0.0.0.0", 4001)
        sender = await listen(ONE)
        sender.transport.sendto(b"found", ("127.0.0.1", 4001))
        await asyncio.sleep(1)
        assert unspawned.payloads == [b"found"]

    net = Network(seed=1)
    net.run(main())
