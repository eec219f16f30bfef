"""The handles of the virtual loop: callbacks to run now or later, and tasks with a steady hash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from overlay.virtual.host import Incarnation

if TYPE_CHECKING:
    from overlay.virtual.loop import VirtualLoop


class Soon(asyncio.Handle):
    """A callback of this turn of the loop; made by `VirtualLoop.call_soon` alone, attribute by
    attribute, because the base class's constructor would be a third of a turn's cost."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: Context

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled

    def __repr__(self) -> str:
        return f"<Soon {'cancelled' if self._cancelled else self._callback}>"


class Timer(asyncio.TimerHandle):
    """A callback of a later time; `when` is in the clock of the host that set it."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: Context
    _loop: VirtualLoop
    _scheduled: bool
    _when: float

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self._scheduled:
                self._loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def __repr__(self) -> str:
        return f"<Timer at {self._when} {'cancelled' if self._cancelled else self._callback}>"


class VirtualTask(asyncio.Task[Any]):
    """A task that knows its host, and whose hash is its number and not its place in memory, so that a
    set of tasks (in `asyncio.TaskGroup`, for one) is walked in the same order in every process."""

    number: int
    incarnation: Incarnation | None

    def __init__(
        self, coro: Any, loop: VirtualLoop, name: str | None, context: Context | None, number: int
    ) -> None:
        self.number = number
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number
