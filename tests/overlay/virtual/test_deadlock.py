"""A run that cannot come to its end says so, and names who waits and where."""

from __future__ import annotations

import asyncio

import pytest

from overlay.virtual import Deadlock, Network, loop

from .helpers import listen


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def test_nothing_to_wake_up_for_names_the_waiting_tasks() -> None:
    async def main(net: Network) -> None:
        net.spawn("127.0.0.9", wait_for_ever(), name="sleeper")
        await listen("127.0.0.2")
        await asyncio.sleep(5)
        await wait_for_ever()

    net = Network(seed=1)
    with pytest.raises(Deadlock) as caught:
        net.run(main(net))
    text = str(caught.value)
    assert "nothing will ever happen again" in text
    assert "2 task(s) wait" in text
    assert "sleeper on 127.0.0.9: wait_for_ever (test_deadlock.py:" in text
    assert "main: main (test_deadlock.py:" in text
    assert net.now == 5


def test_a_busy_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_TURNS_PER_INSTANT", 1000)

    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="time stands still at 0"):
        Network(seed=1).run(main())


def test_a_run_beyond_its_limit_is_noticed() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(1)

    with pytest.raises(Deadlock, match=r"(?s)not done at 30.* main: main"):
        Network(seed=1).run(main(), limit=30)


def test_a_task_that_ignores_its_cancellation_is_named() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    async def main(net: Network) -> None:
        net.spawn("127.0.0.2", stubborn(), name="mule")
        await asyncio.sleep(1)

    net = Network(seed=1)
    with pytest.raises(Deadlock, match=r"(?s)cancelled and still not done.*mule on 127.0.0.2"):
        net.run(main(net))


def test_a_long_list_of_waiting_tasks_is_cut() -> None:
    async def main(net: Network) -> None:
        for _ in range(50):
            net.spawn("127.0.0.2", wait_for_ever())
        await wait_for_ever()

    net = Network(seed=1)
    with pytest.raises(Deadlock, match="and 31 more"):
        net.run(main(net))
