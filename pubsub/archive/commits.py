"""An archive's use of its store: commits, each answered once it is safe, and reads in another thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from overlay.errors import ClosedError
from pubsub.archive.store import Change, GroupCommit, Store, StoreError

T = TypeVar("T")


class Commits:
    """`pubsub.archive.protocol.world.Commit` for a running archive."""

    def __init__(
        self, writer: GroupCommit, patience: float, on_failure: Callable[[BaseException], None]
    ) -> None:
        """`patience`: a commit that takes longer means that the disk hangs."""
        self._writer = writer
        self._patience = patience
        self._on_failure = on_failure
        self._begun: deque[float] = deque()
        """When those that are under way were handed over; they end in the same order."""
        self._now = asyncio.get_running_loop().time
        self._closed = False

    @property
    def is_stalled(self) -> bool:
        """Whether the disk seems to hang: nothing can be promised to anybody meanwhile."""
        return bool(self._begun) and self._now() - self._begun[0] > self._patience

    def __call__(self, changes: Sequence[Change], then: Callable[[], None]) -> None:
        try:
            committed = self._writer.submit(changes)
        except (StoreError, ClosedError) as error:
            self._on_failure(error)
            return
        self._begun.append(self._now())

        def settled(future: asyncio.Future[None]) -> None:
            self._begun.popleft()
            error = None if future.cancelled() else future.exception()
            if error is not None:
                self._on_failure(error)
            elif not future.cancelled() and not self._closed:
                try:
                    then()
                except StoreError as failure:
                    self._on_failure(failure)

        committed.add_done_callback(settled)

    def close(self) -> None:
        """Nobody hears of what becomes safe from here on."""
        self._closed = True


class Reads:
    """`pubsub.archive.protocol.world.Read` for a running archive: one thread asks the store. So the event
    loop waits for no disk, and the answers come in the order of the questions."""

    def __init__(
        self, store: Store, guard: Callable[[Callable[[], None]], None], is_blocking: bool
    ) -> None:
        """`guard` runs something that may find the store failed."""
        self._store = store
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._thread = ThreadPoolExecutor(1, "archive reads") if is_blocking else None
        self._closed = False

    def __call__(self, query: Callable[[Store], T], then: Callable[[T], None]) -> None:
        if self._closed:
            return
        if self._thread is None:
            self._loop.call_soon(self._ask_here, query, then, context=self._context)
        else:
            asked = self._loop.run_in_executor(self._thread, query, self._store)
            asked.add_done_callback(partial(self._answer, then), context=self._context)

    def _ask_here(self, query: Callable[[Store], T], then: Callable[[T], None]) -> None:
        if not self._closed:
            self._guard(lambda: then(query(self._store)))

    def _answer(self, then: Callable[[T], None], asked: asyncio.Future[T]) -> None:
        if not asked.cancelled() and (asked.exception() is None or not self._closed):
            self._guard(lambda: None if self._closed else then(asked.result()))

    async def close(self) -> None:
        """Nobody is answered from here on; wait for the question that is being asked."""
        self._closed = True
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await self._loop.run_in_executor(None, thread.shutdown)
