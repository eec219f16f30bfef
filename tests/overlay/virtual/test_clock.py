"""Time is virtual, moves forward only, and runs equal times in the order in which they were set."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import UsageError
from overlay.virtual import Network, nth_host


def run(main: Coroutine[Any, Any, Any]) -> Any:
    net = Network(seed=1)
    result = net.run(main)
    assert net.unhandled == []
    return result


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=60))
def test_timers_fire_in_order_of_time_then_of_setting_and_cancelled_ones_do_not(
    timers: list[tuple[int, bool]],
) -> None:
    fired: list[tuple[float, int]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handles = [
            loop.call_later(delay, lambda n=number: fired.append((loop.time(), n)))
            for number, (delay, _) in enumerate(timers)
        ]
        for handle, (_, cancelled) in zip(handles, timers, strict=True):
            if cancelled:
                handle.cancel()
        await asyncio.sleep(100)

    run(main())
    expected = [(delay, n) for n, (delay, cancelled) in enumerate(timers) if not cancelled]
    assert fired == sorted(expected)


def test_many_cancelled_timers_are_cleared_out_and_the_others_still_fire() -> None:
    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        most = 0
        for number in range(20_000):
            handle = loop.call_later(1000 + number % 7, fired.append, number)
            if number % 100:
                handle.cancel()
            most = max(most, loop.scheduled)  # type: ignore[attr-defined]
        await asyncio.sleep(2000)
        return len(fired), most

    fired, most_scheduled = run(main())
    assert fired == 200
    assert most_scheduled < 3000


def test_a_timer_cancelled_by_another_of_the_same_time_does_not_fire() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        fired: list[str] = []
        loop.call_later(1, lambda: (fired.append("first"), second.cancel()))
        second = loop.call_later(1, fired.append, "second")
        assert second.when() == 1
        await asyncio.sleep(2)
        assert second.cancelled()
        return fired

    assert run(main()) == ["first"]


def test_a_time_out_fires_on_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(500):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 100)
        return loop.time()

    assert run(main()) == 600


def test_the_clocks_of_the_time_module_follow_and_are_given_back() -> None:
    async def main() -> list[float]:
        before = time.time(), time.monotonic(), time.time_ns(), time.monotonic_ns()
        await asyncio.sleep(86_000)
        after = time.time(), time.monotonic(), time.time_ns() / 1e9, time.monotonic_ns() / 1e9
        seconds = before[0], before[1], before[2] / 1e9, before[3] / 1e9
        return [b - a for a, b in zip(seconds, after, strict=True)]

    real = time.monotonic
    assert run(main()) == pytest.approx([86_000] * 4)
    assert time.monotonic is real


def test_a_ready_program_that_yields_lets_what_is_due_happen() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        loop.call_later(0, done.set)
        while not done.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return "done"

    assert run(main()) == "done"


def test_exceptions_that_nobody_caught_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(2)

    net = Network(seed=1)
    net.run(main())
    assert [type(context["exception"]) for context in net.unhandled] == [ZeroDivisionError]
    assert "Exception in callback" in caplog.text


def test_work_for_a_thread_is_done_in_place() -> None:
    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(lambda: 6 * 7)

    assert run(main()) == 42


def test_a_network_runs_once() -> None:
    async def main() -> None: ...

    net = Network(seed=1)
    net.run(main())
    with pytest.raises(UsageError, match="make another"):
        net.run(main())


def test_what_still_runs_at_the_end_is_cancelled_in_the_order_in_which_it_was_begun() -> None:
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            ended.append(number)

    async def main(net: Network) -> None:
        for number in range(30):
            net.spawn(nth_host(number), wait(number))
        await asyncio.sleep(1)

    net = Network(seed=1)
    net.run(main(net))
    assert ended == list(range(30))


def test_an_exception_of_the_program_carries_the_seed_and_the_time() -> None:
    async def main() -> None:
        await asyncio.sleep(12.5)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        Network(seed=77).run(main())
    assert caught.value.__notes__ == ["virtual network: seed 77, at 12.500000 s"]


@given(
    st.floats(-1e9, 1e9),
    st.floats(0.01, 100),
    st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20),
)
def test_a_timer_of_a_skewed_host_fires_when_its_clock_shows_that_moment_or_later(
    offset: float, rate: float, delays: list[float]
) -> None:
    net = Network(seed=1)

    async def waiter() -> None:
        loop = asyncio.get_running_loop()
        for delay in delays:
            due = loop.time() + delay
            shown: asyncio.Future[float] = loop.create_future()
            loop.call_at(due, lambda shown=shown: shown.set_result(loop.time()))  # type: ignore[misc]
            assert await shown >= due

    async def main() -> None:
        net.skew("127.0.0.2", offset=offset, rate=rate)
        await net.spawn("127.0.0.2", waiter())

    net.run(main(), limit=1e9)


def test_time_does_not_stand_still_for_code_that_waits_until_a_skewed_clock_shows_a_moment() -> (
    None
):
    net = Network(seed=1)

    async def waiter() -> None:
        loop, chance = asyncio.get_running_loop(), random.Random(3)
        while loop.time() < 300:
            due = loop.time() + chance.random()
            while loop.time() < due:
                done = loop.create_future()
                loop.call_at(due, done.set_result, None)
                await done

    async def main() -> None:
        net.skew("127.0.0.2", offset=0.138, rate=1.02816965093849)
        await net.spawn("127.0.0.2", waiter())

    net.run(main(), limit=1000)
