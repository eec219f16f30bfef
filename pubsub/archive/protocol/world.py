"""What the archive's cores share: the store, its commits, the clock on the wall, counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from overlay.contact import PeerId
from overlay.context import Context
from overlay.metrics import Metrics
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import ReadEvent, read_events
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.frontier import publisher_of
from pubsub.archive.replay_policy import RECENT_SECONDS, ReplayPolicy
from pubsub.archive.store.changes import Change
from pubsub.archive.store.store import Store
from pubsub.event import Block
from pubsub.reliable.numbers import Span
from pubsub.rights import Action

T = TypeVar("T")

LARGEST_NUMBER = 2**53
"""No sequence or catenation number of an honest peer is larger."""

Commit = Callable[[Sequence[Change], Callable[[], None]], None]
"""Write changes; the action is run once they are on stable storage, in the order of the calls, and never if
they may not be."""


class Read(Protocol):
    """Ask the store something that may wait for a disk: `query` is called elsewhere, with the store alone to
    touch, and `then` with what it gave, later and in the order of the calls; never if the store fails."""

    def __call__(self, query: Callable[[Store], T], then: Callable[[T], None]) -> None: ...


@dataclass(frozen=True)
class ArchiveWorld:
    """The world of one managed topic's cores."""

    context: Context
    topic: str
    replica: bytes
    """This archive's own name among the replicas, kept in the store."""
    store: Store
    """To be asked here for what it has in memory."""
    commit: Commit
    read: Read
    clock: Callable[[], float]
    """Seconds since 1970."""
    config: DurableConfig
    metrics: Metrics
    refusal: Callable[[Block], str | None] | None = None
    """Why an event may not be kept (see `pubsub.validation`); None where the node asks nothing of events."""
    replay: ReplayPolicy = field(default_factory=ReplayPolicy)
    """How far back new durable names may begin."""

    may: Callable[[PeerId, Action, str], bool] = lambda peer, action, topic: True
    """Whether a peer has shown that it may do this on the topics of a pattern (see `pubsub.gate`)."""

    def replay_refusal(self, name: str, peer: PeerId, age: float, pattern: str) -> str:
        """Why a peer may not have what was archived `age` seconds ago under a new name; empty if it may."""
        return self.right_refusal(peer, age, pattern) or self.replay.refusal(name, peer, age)

    def right_refusal(self, peer: PeerId, age: float, pattern: str) -> str:
        """The same as far as rights go, for any name."""
        if age > RECENT_SECONDS and not self.may(peer, Action.REPLAY, pattern):
            return f"this node has no right to replay {pattern}"
        return ""

    def damaged(self) -> list[Span]:
        """Numbers of events that were stored and cannot be read. A torn batch is not damaged: nobody was told
        of it."""
        return [
            damage.span
            for damage in self.store.damage()
            if damage.topic == self.topic and damage.reason != "torn"
        ]

    def events_in(self, stream: bytes, encoded: bytes) -> list[ReadEvent]:
        """The events in a packed block of a stream, checked once for all of them: it is well-formed, of the
        publisher of its stream, and the node's validation accepts it. None, and counted, otherwise.

        To be asked before their numbers count as taken, or the true ones would be taken for duplicates."""
        try:
            events = read_events(encoded, self.topic)
        except WireError as error:
            self.count_drop(error.reason)
            return []
        block = events[0].block
        reason: str | None = "foreign_event" if self.refusal is None else "bad_signature"
        if block.publisher == publisher_of(stream):
            reason = None if self.refusal is None else self.refusal(block)
        if reason is not None:
            self.count_drop(reason)
            return []
        return events

    def event_in(self, stream: bytes, encoded: bytes) -> ReadEvent | None:
        """The one event in a packed block, checked in the same way; None, and counted, for several."""
        events = self.events_in(stream, encoded)
        if len(events) > 1:
            self.count_drop("malformed_event")
        return events[0] if len(events) == 1 else None

    def count_drop(self, reason: str, count: int = 1) -> None:
        """Count something that a peer sent and that cannot be used."""
        self.metrics.family(
            "archive_dropped", "reason", "Messages to the archive that were dropped, by reason."
        ).add(reason, count)
