"""Group commit: changes from everywhere share a sync, so that it sets the delay and not the throughput.

While one batch is being synced the next one gathers. Each caller is answered when the sync that covers its
changes has returned, and not before; callers are answered in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from overlay.errors import ClosedError
from pubsub.archive.store.changes import Change
from pubsub.archive.store.interface import Store, StoreError

MAX_BATCH = 512
"""The most changes in a batch: a sync is a small part of its cost then, and the callers of one batch go on
while the next is written."""


class GroupCommit:
    """Writes to one store; used from one event loop. Use it as `async with`, or call `close`.

    After a failure of the store every waiting and every later call raises a `StoreError`: nothing of theirs
    may be acknowledged.
    """

    def __init__(self, store: Store, *, max_batch: int = MAX_BATCH) -> None:
        self._store = store
        self._max_batch = max_batch
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
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        return done

    async def commit(self, changes: Sequence[Change]) -> None:
        """Return when these changes are safe. A caller that is cancelled leaves them to be written."""
        await asyncio.shield(self.submit(changes))

    async def close(self) -> None:
        """Write what was handed over, and take nothing more. The store stays open."""
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
