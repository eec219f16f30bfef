"""The one place where answers that come through a callback become something to `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from overlay.errors import ClosedError
from overlay.steps import Cancellable

T = TypeVar("T")


class Futures:
    """The questions that coroutines have asked a core and wait for.

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
