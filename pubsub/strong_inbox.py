"""Hands the messages of one strong topic to its application, one at a time where the handler awaits."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pubsub.reliable.tasks import Tasks
from pubsub.topic_broadcast.config import BroadcastConfig
from pubsub.topic_broadcast.delivery import Delivery
from pubsub.topic_broadcast.held_messages import OVERHEAD

Done = Callable[[], None]


class Inbox:
    """Messages that wait for a handler that turned out to be a coroutine function; others get them at once.

    Nothing is lost here: whoever hands over looks at `is_full` before, or has limits of its own.
    """

    def __init__(
        self,
        config: BroadcastConfig,
        tasks: Tasks,
        call: Callable[[Delivery], Any],
        failed: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        """`call` calls the handler; `failed` is called for what its awaitable raises."""
        self._config = config
        self._tasks = tasks
        self._call = call
        self._failed = failed
        self._on_room = on_room
        self._waiting: asyncio.Queue[tuple[Delivery, Done | None]] = asyncio.Queue()
        self._bytes = 0
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._waiting.qsize()

    @property
    def is_full(self) -> bool:
        config = self._config
        return len(self) >= config.unfinished_messages or self._bytes >= config.unfinished_bytes

    def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()

    def hand_over(self, delivery: Delivery, done: Done | None) -> None:
        """Give a message to the handler now, or when it is done with those before; then call `done`."""
        if self._worker is not None:
            self._waiting.put_nowait((delivery, done))
            self._bytes += _size(delivery)
            return
        result = self._call(delivery)
        if inspect.isawaitable(result):
            self._worker = self._tasks.start("deliveries", self._work(result, done))
        elif done is not None:
            done()

    async def _work(self, first: Awaitable[None], done: Done | None) -> None:
        """A handler that ends because what it awaited was cancelled has failed; the next message comes."""
        myself = asyncio.current_task()
        result: Awaitable[None] | None = first
        while True:
            try:
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError:
                if myself is None or myself.cancelling():
                    raise
                self._failed()
            except Exception:
                self._failed()
            if done is not None:
                done()
            delivery, done = await self._waiting.get()
            self._bytes -= _size(delivery)
            self._on_room()
            result = self._call(delivery)


def _size(delivery: Delivery) -> int:
    return OVERHEAD + len(delivery.payload)
