"""What the archive's cores share: the store, its commits, the clock on the wall, counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.context import Context
from overlay.metrics import Metrics
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.store.changes import Change
from pubsub.archive.store.interface import Store

LARGEST_NUMBER = 2**53
"""No sequence or catenation number of an honest peer is larger."""

Commit = Callable[[Sequence[Change], Callable[[], None]], None]
"""Write changes; the action is run once they are on stable storage, in the order of the calls, and never if
they may not be."""


@dataclass(frozen=True)
class ArchiveWorld:
    """The world of one managed topic's cores."""

    context: Context
    topic: str
    replica: bytes
    """This archive's own name among the replicas, kept in the store."""
    store: Store
    commit: Commit
    clock: Callable[[], float]
    """Seconds since 1970."""
    config: DurableConfig
    metrics: Metrics

    def count_drop(self, reason: str) -> None:
        """Count something that a peer sent and that cannot be used."""
        self.metrics.family(
            "archive_dropped", "reason", "Messages to the archive that were dropped, by reason."
        ).add(reason)
