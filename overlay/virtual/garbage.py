"""Garbage is collected at moments of the run, not of the interpreter.

Objects in cycles are finalized when the collector finds them, and some finalizers act: a stream that closes
its socket, a task that nobody waits for. When the interpreter collects depends on all that it has ever
done, so during a run it does not; the loop collects after so many events.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = 20_000
"""Events between two collections of what is young."""


@contextmanager
def no_automatic_collection() -> Iterator[None]:
    """Leave it to a `Collector` for as long as the block lasts."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Collector:
    """Collects young garbage after every so many events, all of it whenever their number has doubled."""

    def __init__(self) -> None:
        self.due_at = COLLECT_EVERY
        """The number of events at which to call `collect`."""
        self._everything_at = 4 * COLLECT_EVERY

    def collect(self) -> None:
        if self.due_at >= self._everything_at:
            self._everything_at *= 2
            gc.collect()
        else:
            gc.collect(1)
        self.due_at += COLLECT_EVERY
