"""What the application gets from a topic: messages, told gaps, and who takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from overlay.contact import Contact, PeerId

Semantics = Literal["reliable", "stubborn", "best-effort"]
Order = Literal["none", "fifo"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message. Publisher, life, semantics and number identify it."""

    publisher: PeerId
    life: int
    """Which of the publisher's numberings this is: another one after it restarted without a log."""
    number: int
    """Of this message among those of the publisher in this life, from 1; each semantics counts its own."""
    payload: bytes
    semantics: Semantics = "reliable"
    only: tuple[PeerId, ...] | None = None
    """To whom alone it was directed, if it was."""
    complete: int = 0
    """Up to this number, all reliable messages of the publisher in this life were delivered here, were for
    others, or were told as a gap; it may be less than `number` without FIFO order."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that this participant does not get, because it stayed away for too long, was not known to
    those who had them, or those who had them are gone. It is told once, and they are never delivered."""

    publisher: PeerId | None
    """None if nothing else of this publisher was ever received."""
    life: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Participant:
    """One that takes part in a topic, reachable or not."""

    id: PeerId
    contact: Contact
    filter: str
    """What it wants, as text that only the application reads; empty for everything."""
