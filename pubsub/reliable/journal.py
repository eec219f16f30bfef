"""A journal: what one participant must not forget when it crashes, in an SQLite file.

    journal = await opened(lambda: Journal("orders.db", TABLES, owner="topic /orders of node 9f3c"))
    journal.write([("INSERT ...", values)], then)       # `then()` is called when it is on the disk
    await journal.close()

The event loop never waits for the disk. A thread opens the file, and reads it if `opened` makes a log that
does so. A thread commits what is written, and what is written while a commit is under way shares the next one
(group commit). Each `then` is called on the event loop after the commit that covers its changes has been
synced, in the order of the writes.

One policy for errors: a commit that fails (the disk is full, or gone) is rolled back whole, logged,
counted, told to the owner by `on_failure` and shown by `failure`; its changes stay, and
it is tried again each second.
So nothing is lost and nothing is said to be safe before it is; code that waits for a `then` goes on waiting.

A file has one owner: that of another one is refused. While a process has it open, another process is
refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from overlay.errors import ClosedError, UsageError
from pubsub.reliable.process_lock import ProcessLock

Change = tuple[str, tuple[Any, ...]]
"""An SQL statement and its values."""

Then = Callable[[], None]

RETRY_SECONDS = 1.0

MOST_TOGETHER = 4096
"""Writes in one commit, so that those who wait for the first of many do not wait for all of them."""

_OWNER = "CREATE TABLE IF NOT EXISTS journal_owner (one INTEGER PRIMARY KEY, owner TEXT);"

_log = logging.getLogger(__name__)


class _Log(Protocol):
    async def close(self) -> None: ...


L = TypeVar("L", bound=_Log)


async def opened(make: Callable[[], L]) -> L:
    """Make a log in a thread, which opens its journal, and reads it. A log that nobody waits for any more is
    closed again."""
    opening = asyncio.get_running_loop().run_in_executor(None, make)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        with contextlib.suppress(UsageError):
            await (await opening).close()
        raise


class Journal:
    """One file, used from one event loop."""

    def __init__(
        self,
        path: str | Path,
        tables: str,
        owner: str,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """`tables`: SQL that makes the tables where there are none. `on_failure` is called for each commit
        that fails."""
        self.path = path
        self.failure: Exception | None = None
        """Why the last commit failed; None while all is well."""
        self.commits = 0
        self.failures = 0
        self._on_failure = on_failure
        self._waiting: list[tuple[Sequence[Change], Then | None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._closed = False
        self._retry = asyncio.Event()
        self._lock = ProcessLock(path, "log")
        try:
            self._file = sqlite3.connect(path, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(_OWNER + tables)
            self._check_owner(owner)
        except sqlite3.Error as error:
            self._lock.release()
            raise UsageError(f"{path} cannot be used as a log: {error}") from None
        except BaseException:
            self._file.close()
            self._lock.release()
            raise

    def _check_owner(self, owner: str) -> None:
        with self._file:
            self._file.execute("INSERT OR IGNORE INTO journal_owner VALUES (1, ?)", (owner,))
        (found,) = self._file.execute("SELECT owner FROM journal_owner").fetchone()
        if found != owner:
            raise UsageError(f"{self.path} is the log of the {found}, not of the {owner}")

    def read(self, query: str, *values: Any) -> list[Any]:
        """All rows of a query. It blocks: for whoever opens the journal, in a thread."""
        return self._file.execute(query, values).fetchall()

    def write(self, changes: Sequence[Change], then: Then | None = None) -> None:
        """Have changes written, all of them or none; `then` is called when they are on the disk."""
        if self._closed:
            raise ClosedError(f"the log {self.path} is closed")
        self._waiting.append((changes, then))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def written(self) -> None:
        """Wait until all that was handed over so far is on the disk; `ClosedError` when the journal is closed
        before."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self._waiters[waiter] = None
        waiter.add_done_callback(self._waiters.pop)
        self.write((), then)
        await waiter

    async def close(self) -> None:
        """Write what was handed over, with one more attempt if the disk fails, and let the file go. More than
        once is fine. No `then` is called any more."""
        if self._closed:
            return
        self._closed = True
        self._retry.set()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._file.close)
        finally:
            self._lock.release()
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_exception(ClosedError(f"the log {self.path} was closed"))

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            changes = [change for changes, _ in batch for change in changes]
            is_last = self._closed
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._commit, changes)
            except Exception as error:
                self._waiting = batch + self._waiting
                self._note(error)
                if is_last:
                    break  # as if the process had crashed a moment earlier
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._retry.wait(), RETRY_SECONDS)
                continue
            self.failure = None
            self.commits += 1
            for _, then in batch:
                if then is not None and not self._closed:
                    self._call(then)
        self._writer = None

    def _call(self, then: Then) -> None:
        try:
            then()
        except Exception:  # the others wait for the same commit, and later ones for this task
            _log.exception("what follows a write of the log %s failed", self.path)

    def _note(self, error: Exception) -> None:
        if self.failure is None:
            _log.error("the log %s cannot be written, and is tried again: %s", self.path, error)
        self.failure = error
        self.failures += 1
        if self._on_failure is not None:
            self._on_failure(error)

    def _commit(self, changes: Sequence[Change]) -> None:
        """In a thread: all changes or none."""
        try:
            for statement, values in changes:
                self._file.execute(statement, values)
            self._file.commit()
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._file.rollback()
            raise
