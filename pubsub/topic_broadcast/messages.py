"""What travels: messages with their audience, acknowledgements, and what is garbage."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.wire import message
from pubsub.topic_membership.messages import (
    FINGERPRINT_BYTES,
    NumbersOnWire,
    check_counts,
    check_numbers,
)

StatementOnWire = tuple[PeerId, int, int, bytes, NumbersOnWire]
"""Owner, its boot, the statement's version, the digest of the participants that the owner knew, and the
numbers of the messages that the owner has, of some sources."""


ASIDE_KINDS = ("best-effort", "stubborn", "direct", "taken", "refused")


@lru_cache(maxsize=8192)
def source_of(publisher: PeerId, life: int) -> bytes:
    """The short name of one numbering of a publisher's messages."""
    text = publisher + life.to_bytes(16, "big", signed=True)
    return hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES, person=b"topic source").digest()


@message(0x66)
@dataclass(frozen=True, slots=True)
class Item:
    """One message, or for those it is not addressed to, the place that it would have had."""

    publisher: PeerId
    life: int
    number: int
    only: bool
    """Addressed to those named and nobody else, or to everybody but those named."""
    named: tuple[PeerId, ...]
    payload: bytes | None
    """None for those to whom the message is not addressed."""

    def __post_init__(self) -> None:
        check_counts(self.number, self.life)
        if self.number < 1:
            raise UsageError("messages are numbered from 1")

    @property
    def source(self) -> bytes:
        return source_of(self.publisher, self.life)

    def is_for(self, peer: PeerId) -> bool:
        return (peer in self.named) == self.only

    def stub(self) -> Item:
        """The same without its payload."""
        return replace(self, payload=None)


@message(0x67)
@dataclass(frozen=True, slots=True)
class Cast:
    """Messages, published or forwarded, and what their sender knows to be garbage."""

    topic: str
    items: tuple[Item, ...]
    garbage: NumbersOnWire
    digest: bytes
    """Of the participants that the sender knows."""

    def __post_init__(self) -> None:
        check_numbers(self.garbage)


@message(0x68)
@dataclass(frozen=True, slots=True)
class Received:
    """Acknowledgements, the sender's own or others' too, and garbage."""

    topic: str
    statements: tuple[StatementOnWire, ...]
    garbage: NumbersOnWire
    digest: bytes
    asks: bool
    """The receiver is asked for what it knows of the same sources."""
    again: bool
    """The sender had no room for something: send again what it has not acknowledged."""

    def __post_init__(self) -> None:
        check_numbers(self.garbage)
        for _, boot, version, _, numbers in self.statements:
            check_counts(boot, version)
            check_numbers(numbers)


@message(0x69)
@dataclass(frozen=True, slots=True)
class Aside:
    """A message outside reliable broadcast: best-effort, stubborn, or for the receiver alone; or what became
    of a stubborn one, which life and number name then."""

    topic: str
    kind: str
    life: int
    number: int
    payload: bytes

    def __post_init__(self) -> None:
        check_counts(self.number, self.life)
        if self.kind not in ASIDE_KINDS:
            raise UsageError(f"a message aside is one of {', '.join(ASIDE_KINDS)}")
