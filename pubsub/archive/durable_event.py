"""An event as a durable subscription delivers it."""

from __future__ import annotations

from typing import Any

from overlay.contact import PeerId
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import read_event
from pubsub.archive.protocol.subscriber import Numbered
from pubsub.event import Event
from pubsub.validation import is_signed_by_publisher


class DurableEvent(Event):
    """An event, and what the archive says of it."""

    __slots__ = ("archived", "catenation", "missed", "redelivered")

    archived: int
    """Its sequence number at the archive; 0 when it came live, before the archive's word."""
    catenation: int
    """Its publisher's number for it; 0 as above."""
    redelivered: bool
    """The application may have been given it before a crash: it was in hand when the subscriber went away, or
    an archive that has failed since may have given it."""
    missed: int
    """This many sequence numbers before this event were removed by the archive's retention, unseen."""

    def __init__(
        self,
        topic: str,
        data: Any,
        publisher: PeerId,
        run: bytes,
        sequence: int,
        hops: int = 0,
        signed: bool = False,
        archived: int = 0,
        catenation: int = 0,
        redelivered: bool = False,
        missed: int = 0,
    ) -> None:
        super().__init__(topic, data, publisher, run, sequence, hops, signed)
        self.archived = archived
        self.catenation = catenation
        self.redelivered = redelivered
        self.missed = missed


def from_archive(numbered: Numbered, managed: str, missed: int, signed: bool) -> DurableEvent:
    """The event that an archive sent; `WireError` for anything else, or, with `signed`, for a forged one."""
    read = read_event(numbered.event, managed)
    block = read.block
    if signed and not is_signed_by_publisher(block):
        raise WireError("bad_signature")
    return DurableEvent(
        block.topic,
        read.data(),
        block.publisher,
        block.run,
        block.first,
        0,
        signed,
        numbered.sequence,
        numbered.catenation,
        numbered.doubtful,
        missed,
    )


def from_gossip(event: Event, missed: int) -> DurableEvent:
    """An event that came live."""
    return DurableEvent(
        event.topic,
        event.data,
        event.publisher,
        event.run,
        event.sequence,
        event.hops,
        event.signed,
        missed=missed,
    )
