"""Background tasks that die are logged, counted and told to their owner."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from overlay.errors import ClosedError
from overlay.futures import Finish
from overlay.metrics import Metrics
from overlay.virtual import Network
from pubsub.reliable.tasks import TaskFailed, Tasks


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in virtual time."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        Network(1).run(test(**fixtures))

    return run


async def dies() -> None:
    raise RuntimeError("the disk is gone")


async def never_ends() -> None:
    await asyncio.Event().wait()


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@virtually
async def test_a_death_is_logged_with_its_names_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    tasks = Tasks("archive", metrics)
    with caplog.at_level(logging.ERROR):
        tasks.start("reader", dies(), vital=False)
        await turns()
    assert metrics.as_dict()["background_tasks_failed"] == {"reader": 1}
    for word in ("reader", "archive", "the disk is gone"):
        assert word in caplog.text
    tasks.check()
    await tasks.close()


@virtually
async def test_a_vital_death_reaches_the_owner_by_callback_call_and_close() -> None:
    told: list[TaskFailed] = []
    tasks = Tasks("archive", failed=told.append)
    tasks.start("reader", dies())
    tasks.start("writer", dies())
    await turns()
    assert len(told) == 1
    with pytest.raises(TaskFailed, match="reader of the archive") as caught:
        await tasks.close()
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(TaskFailed):
        tasks.check()
    await tasks.close()


@virtually
async def test_close_does_not_say_again_what_a_call_has_said() -> None:
    tasks = Tasks("archive")
    tasks.start("reader", dies())
    await turns()
    with pytest.raises(TaskFailed):
        tasks.check()
    await tasks.close()


@virtually
async def test_what_returns_or_is_cancelled_has_not_failed() -> None:
    metrics = Metrics()
    tasks = Tasks("archive", metrics)
    tasks.start("once", turns(1))
    waiting = tasks.start("waits", never_ends())
    assert len(tasks) == 2
    await turns()
    assert len(tasks) == 1
    waiting.cancel()
    await turns()
    assert len(tasks) == 0
    tasks.check()
    await tasks.close()
    assert metrics.as_dict()["background_tasks_failed"] == {}


@virtually
async def test_closing_ends_everything_and_nothing_starts_after_it() -> None:
    tasks = Tasks("archive")
    running = tasks.start("waits", never_ends())
    await tasks.close()
    await tasks.close()
    assert running.cancelled()
    with pytest.raises(ClosedError):
        tasks.start("late", never_ends())


@virtually
async def test_a_cancelled_close_still_ends_the_tasks() -> None:
    tasks = Tasks("archive")
    cleaned: list[str] = []

    async def slow_to_end() -> None:
        try:
            await never_ends()
        finally:
            await turns()
            cleaned.append("yes")

    tasks.start("slow", slow_to_end())
    await turns(1)
    closing = asyncio.ensure_future(tasks.close())
    await turns(1)
    closing.cancel()
    await turns(6)
    assert cleaned == ["yes"]
    assert len(tasks) == 0


@virtually
async def test_a_task_that_fails_while_it_is_ended_has_failed() -> None:
    tasks = Tasks("archive")

    async def outlives() -> None:
        try:
            await never_ends()
        except asyncio.CancelledError:
            raise RuntimeError("failed while it ended") from None

    tasks.start("bad end", outlives())
    await turns(1)
    with pytest.raises(TaskFailed, match="bad end"):
        await tasks.close()


@virtually
async def test_one_of_the_tasks_may_close_them() -> None:
    tasks = Tasks("archive")
    other = tasks.start("waits", never_ends())
    await tasks.start("closes", tasks.close())
    assert other.cancelled()


@virtually
async def test_a_failing_turn_is_counted_and_the_next_one_comes() -> None:
    metrics = Metrics()
    tasks = Tasks("archive", metrics)
    seen: list[float] = []

    async def act() -> None:
        seen.append(asyncio.get_running_loop().time())
        if len(seen) == 2:
            raise OSError("full")

    def plain() -> None:
        raise ValueError("a bug")

    begun = asyncio.get_running_loop().time()
    tasks.repeat("retention", 5.0, act)
    tasks.repeat("counting", 7.0, plain)
    await asyncio.sleep(22)
    assert [round(at - begun) for at in seen] == [5, 10, 15, 20]
    assert metrics.as_dict()["background_tasks_failed"] == {"counting": 3, "retention": 1}
    tasks.check()
    await tasks.close()


@virtually
async def test_an_ending_runs_once_and_to_its_end_though_its_caller_is_cancelled() -> None:
    ended: list[str] = []

    async def end() -> None:
        ended.append("begun")
        await turns(5)
        ended.append("done")

    finish = Finish(end)
    first = asyncio.ensure_future(finish())
    await turns(2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert finish.has_begun
    await asyncio.gather(finish(), finish())
    assert ended == ["begun", "done"]


@virtually
async def test_every_caller_of_an_ending_gets_its_exception() -> None:
    finish = Finish(dies)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await finish()
