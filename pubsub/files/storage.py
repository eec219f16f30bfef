"""What files have the disk do, in threads: the event loop waits for no disk, and hashes nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pubsub.files.disk import PieceFile
from pubsub.files.manifest import HashList
from pubsub.reliable.tasks import Tasks

T = TypeVar("T")
Work = Callable[[], Any]
Then = Callable[[Any], None]
Failed = Callable[[Exception], None]


async def in_thread(work: Callable[[], T]) -> T:
    """Do what blocks in a thread. Threads cannot be cancelled: who is cancelled waits for the end."""
    job = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await asyncio.wait([job])
    except asyncio.CancelledError:
        await asyncio.wait([job])
        raise
    return job.result()


class FileStorage:
    """The pieces of one file on the disk, as `pubsub.files.exchange.Storage`. What is asked for is done one
    after the other, in that order.

    When the disk fails, `failed` is told, and nothing of the exchange's is done any more."""

    def __init__(self, file: PieceFile, hashes: HashList, tasks: Tasks, failed: Failed) -> None:
        self._file = file
        self._hashes = hashes
        self._tasks = tasks
        self._failed = failed
        self._waiting: deque[tuple[Work, Then, Failed]] = deque()
        self._is_working = False
        self._closed = False

    def close(self) -> None:
        """Nothing is done for the exchange from here on, and it is not called back."""
        self._closed = True

    def read(self, index: int, then: Callable[[bytes], None]) -> None:
        self._do(partial(self._file.read_checked, index, self._hashes), then)

    def write(self, index: int, data: bytes, then: Callable[[bool], None]) -> None:
        self._do(partial(self._file.write_checked, index, data, self._hashes), then)

    def check(self, hashes: HashList, then: Callable[[bool], None]) -> None:
        self._do(hashes.check, then)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something else with the file in its turn."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(result: T) -> None:
            if not done.done():
                done.set_result(result)

        def fail(error: Exception) -> None:
            if not done.done():
                done.set_exception(error)

        self._queue(work, settle, fail)
        return await done

    def _do(self, work: Work, then: Then) -> None:
        """Do something for the exchange."""

        def call_back(result: Any) -> None:
            if not self._closed:
                then(result)

        def fail(error: Exception) -> None:
            if not self._closed:
                self.close()
                self._failed(error)

        if not self._closed:
            self._queue(work, call_back, fail)

    def _queue(self, work: Work, then: Then, failed: Failed) -> None:
        self._waiting.append((work, then, failed))
        if not self._is_working:
            self._is_working = True
            self._tasks.start("disk", self._work(), vital=False)

    async def _work(self) -> None:
        try:
            while self._waiting:
                work, then, failed = self._waiting.popleft()
                try:
                    result = await in_thread(work)
                except Exception as error:
                    failed(error)
                else:
                    then(result)
        finally:
            self._is_working = False
