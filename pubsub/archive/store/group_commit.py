"""Group commit: changes from everywhere share a sync, so that it sets the delay and not the throughput.

While one batch is being synced the next one gathers. Each caller is answered when the sync that covers its
changes has returned, and not before; callers are answered in the order in which they came.

`Reads` asks the store in another thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TypeVar

from overlay.errors import ClosedError
from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import Change
from pubsub.archive.store.store import Store

MAX_BATCH = 512
"""The most changes in a batch: a sync is a small part of its cost then, and the callers of one batch go on
while the next is written."""


class GroupCommit:
    """Writes to one store; used from one event loop. Use it as `async with`, or call `close`. To call it is
    `pubsub.archive.protocol.world.Commit`.

    After a failure of the store every waiting and every later call raises a `StoreError`: nothing of theirs
    may be acknowledged.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_batch: int = MAX_BATCH,
        patience: float = inf,
        on_failure: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        """`patience`: a commit that takes longer means that the disk hangs. `on_failure` hears why changes
        that were handed over by a call are not written."""
        self._store = store
        self._max_batch = max_batch
        self._patience = patience
        self._on_failure = on_failure
        self._begun: deque[float] = deque()
        """When those that are under way were handed over; they end in the same order."""
        self._waiting: list[tuple[Sequence[Change], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: StoreError | None = None
        self._closed = False
        self.syncs = 0
        """Batches synced."""
        self.changes = 0
        """Changes in them."""

    async def __aenter__(self) -> GroupCommit:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[None]:
        """Hand changes over, to be written together, in order; the future is done once they are safe."""
        if self._closed:
            raise ClosedError("the store's group commit is closed: nothing can be written any more")
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((changes, done))
        self._begun.append(loop.time())
        if self._task is None:
            self._task = loop.create_task(self._work())
        return done

    def __call__(self, changes: Sequence[Change], then: Callable[[], None] = lambda: None) -> None:
        """Hand changes over; `then` is called once they are safe, unless this is closed by then."""
        try:
            self.submit(changes).add_done_callback(partial(self._settled, then))
        except (StoreError, ClosedError) as error:
            self._on_failure(error)

    def _settled(self, then: Callable[[], None], done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._on_failure(error)
        elif not done.cancelled() and not self._closed:
            then()

    @property
    def is_stalled(self) -> bool:
        """Whether the disk seems to hang: nothing can be promised to anybody meanwhile."""
        begun = self._begun
        return bool(begun) and asyncio.get_running_loop().time() - begun[0] > self._patience

    async def commit(self, changes: Sequence[Change]) -> None:
        """Return when these changes are safe. A caller that is cancelled leaves them to be written."""
        await asyncio.shield(self.submit(changes))

    async def close(self) -> None:
        """Write what was handed over, and take nothing more; no `then` is called any more. The store stays
        open."""
        self._closed = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._one_batch()
        finally:
            self._task = None

    async def _one_batch(self) -> None:
        taken, changes = self._next_batch()
        try:
            if self._store.blocking:
                await asyncio.get_running_loop().run_in_executor(None, self._write, changes)
            else:
                self._store.write(changes)
                await asyncio.sleep(self._store.sync_seconds)
                self._store.sync()
        except Exception as error:  # whatever it is, what the disk has is not known
            self._fail(error, taken)
            return
        self.syncs += 1
        self.changes += len(changes)
        for _, done in taken:
            self._begun.popleft()
            if not done.done():
                done.set_result(None)

    def _next_batch(
        self,
    ) -> tuple[list[tuple[Sequence[Change], asyncio.Future[None]]], list[Change]]:
        """Whole submissions, in order, up to the size of a batch; at least one."""
        batch: list[Change] = []
        count = 0
        for changes, _ in self._waiting:
            if batch and len(batch) + len(changes) > self._max_batch:
                break
            batch += changes
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken, batch

    def _write(self, changes: list[Change]) -> None:
        self._store.write(changes)
        self._store.sync()

    def _fail(
        self, error: Exception, taken: list[tuple[Sequence[Change], asyncio.Future[None]]]
    ) -> None:
        failure = error
        if not isinstance(failure, StoreError):
            failure = StoreError(f"the store cannot be written: {error!r}")
            failure.__cause__ = error
        self._failure = failure
        for _, done in taken + self._waiting:
            if not done.done():
                done.set_exception(failure)
                done.exception()  # a caller that went away need not hear of it
        self._waiting = []
        self._begun.clear()


T = TypeVar("T")


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
