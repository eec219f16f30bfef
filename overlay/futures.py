"""What coroutines wait for: the answers of cores, which come through a callback, and endings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from overlay.errors import ClosedError
from overlay.steps import Cancellable

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Futures:
    """The questions that coroutines have asked a core and wait for: the one place where callbacks become
    something to `await`.

    Who stops waiting cancels the question. After `close`, and for questions that it interrupts,
    `ClosedError`.
    """

    def __init__(self, closed: str) -> None:
        """`closed`: what the error says."""
        self._message = closed
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self.is_closed = False

    async def answer(self, ask: Callable[[Callable[[T], None]], Cancellable | None]) -> T:
        """What `ask(give)` gives, now or later."""
        self.check_open()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        pending = ask(lambda value: None if future.done() else future.set_result(value))
        self._waiting[future] = None
        try:
            return await future
        finally:
            del self._waiting[future]
            if pending is not None:
                pending.cancel()

    async def told(self, do: Callable[[Callable[[], None]], None]) -> None:
        """Wait until `do(done)` has called `done`."""

        def ask(give: Callable[[None], None]) -> None:
            do(lambda: give(None))

        await self.answer(ask)

    def check_open(self) -> None:
        if self.is_closed:
            raise ClosedError(self._message)

    def close(self) -> None:
        self.is_closed = True
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(ClosedError(self._message))


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller is a callback or a coroutine of this event loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # no event loop runs in the caller's thread
        return False


class Finish:
    """An ending that happens once and to its end, however often it is asked for and whichever caller is
    cancelled.

        self._finish = Finish(self._end)
        async def close(self) -> None:
            await self._finish()

    The first call runs `ending` in a task of its own. Every call waits for that task. A caller that is
    cancelled while it waits stops waiting; `ending` goes on."""

    def __init__(self, ending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._ending = ending
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    async def __call__(self) -> None:
        """Run the ending, or wait for the one that runs; raises what it raised."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._ending())
            self._task.add_done_callback(_retrieve)
        await asyncio.shield(self._task)


def _retrieve(task: asyncio.Task[None]) -> None:
    """Take note of an exception that nobody may be left to wait for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("an ending raised %r", error)
