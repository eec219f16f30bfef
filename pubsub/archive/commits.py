"""An archive's commits: in order, each answered once it is on stable storage, and watched while it is not."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from overlay.errors import ClosedError
from pubsub.archive.store import Change, GroupCommit, StoreError


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
