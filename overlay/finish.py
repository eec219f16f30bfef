"""A close that is complete and can be repeated, though a caller of it is cancelled half-way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger(__name__)


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
