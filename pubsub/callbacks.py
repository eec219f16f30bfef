"""The tasks that call an application's functions back: none of them outlives its node."""

from __future__ import annotations

import asyncio

MOMENT = 1.0
"""Seconds that callbacks have to finish what they are at when their node closes."""


class Callbacks:
    """Those of one node."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, task: asyncio.Task[None]) -> None:
        """Have a task end with the node at the latest."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Wait a moment for all of them, then cancel those that go on; on return, all have ended.

        A callback that closes its own node is not waited for."""
        tasks = self._tasks - {asyncio.current_task()}
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=MOMENT)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks)
