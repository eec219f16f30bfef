"""Background tasks whose end is noticed.

A service that runs on its own (a pump, a search, a retention loop) runs in a `Tasks` of its owner. When one
of them dies of an exception, this is logged with the names of owner and task and counted in the metric
`background_tasks_failed` under the task's name. If the service cannot go on without the task (`vital`, the
default), the owner learns of it three times over: by the callback `failed`, at its next `check()`, and at
`close()`.

    self._tasks = Tasks("archive", metrics)
    self._tasks.start("reads", self._read())
    self._tasks.repeat("retention", 5.0, self._forget_old)
    ...
    self._tasks.check()  # at the top of each public call
    ...
    await self._tasks.close()

A task that returns, or that is cancelled, has not failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from overlay.errors import CamcastError, ClosedError
from overlay.metrics import Metrics

T = TypeVar("T")

FAILED = ("background_tasks_failed", "task", "Background tasks that died of an exception")
"""A family of counters: its name, its label and what it counts."""

_log = logging.getLogger(__name__)


class TaskFailed(CamcastError):
    """A background task died and its owner cannot go on; `__cause__` is what the task died of."""


class Tasks:
    """The background tasks of one owner.

    The number of tasks is not bounded here: the owner starts them, never a peer's message alone.
    """

    def __init__(
        self,
        owner: str,
        metrics: Metrics | None = None,
        failed: Callable[[TaskFailed], None] | None = None,
    ) -> None:
        """`owner` is a word for logs and errors. `failed` is called once, when the first vital task dies."""
        self._owner = owner
        self._counter = (metrics or Metrics()).family(*FAILED)
        self._failed = failed
        self._running: dict[asyncio.Task[Any], None] = {}
        self._closed = False
        self._was_told = False
        self.failure: TaskFailed | None = None
        """What the first vital task died of; None while all is well."""

    def __len__(self) -> int:
        """How many of the tasks are running."""
        return len(self._running)

    def start(
        self, name: str, work: Coroutine[Any, Any, T], *, vital: bool = True
    ) -> asyncio.Task[T]:
        """Run `work` in the background under a constant `name`, which is the label of its counter.

        `vital`: the owner cannot go on without it. The failure of a task that is not vital is logged and
        counted, no more. `ClosedError` when the tasks were closed."""
        if self._closed:
            work.close()
            raise ClosedError(f"the {self._owner} is closed, and starts nothing any more")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}: {name}")
        self._running[task] = None
        task.add_done_callback(lambda task: self._ended(name, task, vital))
        return task

    def repeat(
        self, name: str, seconds: float, action: Callable[[], Awaitable[None] | None]
    ) -> asyncio.Task[None]:
        """Call `action` every `seconds`, first after `seconds`.

        A turn that raises is logged and counted as a failed task is, and the next turn comes all the same: a
        full disk or a bug in one turn does not end the service."""
        return self.start(name, self._turns(name, seconds, action))

    async def _turns(
        self, name: str, seconds: float, action: Callable[[], Awaitable[None] | None]
    ) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                waiting = action()
                if waiting is not None:
                    await waiting
            except Exception as error:
                self._note(name, error, "failed in one of its turns")

    def check(self) -> None:
        """Raise `TaskFailed` if a vital task has died; to be called at the top of the owner's calls."""
        if self.failure is not None:
            self._was_told = True
            raise self.failure

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends; more than once is fine.

        Raises `TaskFailed` once everything has ended, if a vital task died and no `check` has said so.
        When the caller is cancelled meanwhile, the tasks are cancelled all the same. One of the tasks may
        be the caller: it is not cancelled."""
        self._closed = True
        me = asyncio.current_task()
        tasks = [task for task in self._running if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self.failure is not None and not self._was_told:
            self.check()

    def _ended(self, name: str, task: asyncio.Task[Any], vital: bool) -> None:
        self._running.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self._note(name, error, "died")
        if vital and self.failure is None:
            self.failure = TaskFailed(
                f"the {name} of the {self._owner} died: {error!r}; make another one"
            )
            self.failure.__cause__ = error
            if self._failed is not None:
                self._failed(self.failure)

    def _note(self, name: str, error: BaseException, what: str) -> None:
        self._counter.add(name)
        _log.error("background task %r of the %s %s", name, self._owner, what, exc_info=error)
