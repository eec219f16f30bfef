"""The DHT's own requests and replies, codes 0x00 to 0x0f, and how they travel.

    Ping       -> Pong
    FindNode   -> Found
    FindValue  -> FoundValue where the value is held, else Found
    Store      -> Stored
    any        -> Refused

`Pong`, `FoundNodes` and `FoundValue` carry a token (see `trust`) which a later `StoreValue`, or a request of
another layer that leaves something behind, must present. A message checks itself when it is made, and
so also when it is decoded: one that breaks a limit below does not decode.

Each message travels in a *letter*, whose head pairs a reply with its request:

    flags (1 byte), attempt (1), number (8), then if flagged: challenge (16), proof (96), token (8),
    length of padding (2) and as many zeros; message

A request's number is random, and its reply repeats it: who cannot see the request cannot forge the reply. The
attempt counts how often the request was sent; the reply repeats that too, so that a round trip is measured
from the right sending, and one that was lost is told from one that was late.

Nearly every reply is a list of contacts that were packed before, and most of whom the asker knows already. So
a list is one string of bytes, an entry for each contact (its length, 1 byte, and its packed form): lists are
joined from entries, are cut up again, and only the unknown entries are unpacked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from overlay.contact import Contact, PeerId
from overlay.dht.trust import CHALLENGE_BYTES, PROOF_BYTES, TOKEN_BYTES
from overlay.errors import UsageError
from overlay.wire import WireError, message

MAX_VALUE_BYTES = 1024
"""Bytes of one value: with key, token and a proof of identity it fits into a datagram of 1,400 bytes."""

MAX_CONTACTS = 64
"""Contacts in one reply; more is malformed."""

LARGEST_ENTRY = 39
"""Bytes of one contact in a reply, for an address of IPv6."""

MAX_VERSION = 2**63 - 1
MAX_TOKEN_BYTES = 16
MAX_REASON_CHARS = 32


class ValueTooLarge(UsageError):
    """The value does not fit into one datagram beside what travels with it."""


def _check_token(token: bytes) -> None:
    if len(token) > MAX_TOKEN_BYTES:
        raise UsageError(f"a token has at most {MAX_TOKEN_BYTES} bytes, not {len(token)}")


def _check_contacts(contacts: bytes) -> None:
    if len(contacts) > MAX_CONTACTS * LARGEST_ENTRY:
        raise UsageError(f"a reply has at most {MAX_CONTACTS} contacts, not {len(contacts)} bytes")


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_CONTACTS:
        raise UsageError(f"count={count} is not within 1..{MAX_CONTACTS}")


@message(0x00)
class Ping:
    """Are you there?"""


@message(0x01)
class Pong:
    """I am.

    `joining`: the sender looks for a network itself, so its answer is not proof of one.
    """

    token: bytes
    joining: bool

    def __post_init__(self) -> None:
        _check_token(self.token)


@message(0x02)
class FindNode:
    """Which `count` nodes that you know are closest to `target`?"""

    target: PeerId
    count: int

    def __post_init__(self) -> None:
        _check_count(self.count)


@message(0x03)
class FoundNodes:
    """The closest that the sender knows and a datagram holds, nearest first, without the one who asked."""

    token: bytes
    contacts: bytes
    """Packed by `join_contacts`."""

    def __post_init__(self) -> None:
        _check_token(self.token)
        _check_contacts(self.contacts)


@message(0x04)
class FindValue:
    """Your record under `key`, or else the `count` nodes closest to it?"""

    key: PeerId
    count: int

    def __post_init__(self) -> None:
        _check_count(self.count)


@message(0x05)
class StoredValue:
    """A value, its version, and the seconds that it has left to live when it is sent."""

    version: int
    value: bytes
    time_to_live: float

    def __post_init__(self) -> None:
        if not 0 <= self.version <= MAX_VERSION:
            raise UsageError(f"a version is a whole number from 0 to 2^63 - 1, not {self.version}")
        if len(self.value) > MAX_VALUE_BYTES:
            raise ValueTooLarge(
                f"a value has at most {MAX_VALUE_BYTES} bytes, not {len(self.value)}:"
                " store where it can be fetched instead"
            )
        if not (self.time_to_live > 0 and math.isfinite(self.time_to_live)):
            raise UsageError(f"a time to live is a number of seconds, not {self.time_to_live}")

    @property
    def rank(self) -> tuple[int, bytes]:
        """Of two records under one key the one of higher rank stays: by version, then by value."""
        return self.version, self.value


@message(0x06)
class FoundValue:
    """The record that the sender holds, and as many of the closest nodes as the datagram has room for."""

    token: bytes
    record: StoredValue
    contacts: bytes
    """Packed by `join_contacts`."""

    def __post_init__(self) -> None:
        _check_token(self.token)
        _check_contacts(self.contacts)


@message(0x07)
class StoreValue:
    """Hold this record under `key`, unless you hold one of higher rank."""

    key: PeerId
    record: StoredValue
    token: bytes

    def __post_init__(self) -> None:
        _check_token(self.token)


@message(0x08)
class Stored:
    """The record of highest rank is held; `newest` is its version."""

    newest: int


@message(0x09)
class StoreRefused:
    """The request was understood and is not granted; asking again the same way will not help."""

    reason: str

    def __post_init__(self) -> None:
        if len(self.reason) > MAX_REASON_CHARS:
            raise UsageError(f"a reason has at most {MAX_REASON_CHARS} characters")


@message(0x0A)
class Leaving:
    """The sender closes: do not name it to others. Nobody answers it.

    A hint, which is checked: where there are no sessions anybody may say so in the sender's name."""


BAD_TOKEN = StoreRefused("token")
"""The token is not one that this node gave to the sender's address lately: ask it anything, and try again."""

NO_ROOM = StoreRefused("room")
"""The node holds as many records as it will, in all or for the sender."""

NOT_SERVED = StoreRefused("not_served")
"""The node does not answer requests of this type: it is a light member, or has no such service."""

TOO_LARGE = StoreRefused("too_large")
"""The answer does not fit into a datagram."""


# Lists of contacts.


def entry_of(contact: Contact) -> bytes:
    """One contact of a list: 27 bytes for IPv4 and 39 for IPv6."""
    packed = contact.packed()
    return bytes((len(packed),)) + packed


def join_contacts(contacts: Iterable[Contact]) -> bytes:
    return b"".join(map(entry_of, contacts))


def split_entries(data: bytes) -> list[bytes]:
    """The entries of a list, in their order; `WireError` if they do not fill it."""
    entries: list[bytes] = []
    start, end = 0, len(data)
    while start < end:
        following = start + 1 + data[start]
        entries.append(data[start:following])
        start = following
    if start != end:
        raise WireError("truncated")
    return entries


def contact_of(entry: bytes) -> Contact:
    """The contact of an entry; `WireError` if it holds none."""
    try:
        return Contact.unpack(entry[1:])
    except UsageError:
        raise WireError("wrong_fields") from None


# Letters.

NUMBER_BYTES = 8
HEAD_BYTES = 2 + NUMBER_BYTES

_REPLY = 1
LIGHT = 2
_CHALLENGE = 4
_PROOF = 8
_TOKEN = 16
_PADDED = 32
_KNOWN_FLAGS = _REPLY | LIGHT | _CHALLENGE | _PROOF | _TOKEN | _PADDED


class Letter(NamedTuple):
    """One request or reply between two nodes of the DHT."""

    is_reply: bool
    from_light: bool
    """The sender uses the DHT without serving it: not to be entered in a routing table."""
    attempt: int
    number: bytes
    challenge: bytes | None
    """A request's: prove your id by signing this. See `trust.IdProofs`."""
    proof: bytes | None
    """A reply's: the sender's answer to the challenge."""
    payload: bytes
    token: bytes | None = None
    """A request's: what the receiver gave to prove the sender's address. See `strangers`."""
    padding: int = 0
    """A request's: zeros that make it as large as its answer may be."""

    def packed(self) -> bytes:
        flags = (
            (_REPLY if self.is_reply else 0)
            | (LIGHT if self.from_light else 0)
            | (_CHALLENGE if self.challenge is not None else 0)
            | (_PROOF if self.proof is not None else 0)
            | (_TOKEN if self.token is not None else 0)
            | (_PADDED if self.padding else 0)
        )
        parts = (
            bytes((flags, self.attempt)),
            self.number,
            self.challenge or b"",
            self.proof or b"",
            self.token or b"",
            self.padding.to_bytes(2, "big") + bytes(self.padding) if self.padding else b"",
            self.payload,
        )
        return b"".join(parts)

    @property
    def size(self) -> int:
        """Bytes of `packed()`."""
        proofs = (self.challenge or b"", self.proof or b"", self.token or b"")
        zeros = 2 + self.padding if self.padding else 0
        return HEAD_BYTES + sum(map(len, proofs)) + zeros + len(self.payload)


def unpack_letter(body: bytes) -> Letter:
    """The letter that `packed()` gave; `WireError` for what is none. The payload is not looked at."""
    if len(body) < HEAD_BYTES:
        raise WireError("truncated")
    flags = body[0]
    if flags & ~_KNOWN_FLAGS:
        raise WireError("unknown_flags")
    start = HEAD_BYTES
    challenge = proof = None
    if flags & _CHALLENGE:
        challenge, start = body[start : start + CHALLENGE_BYTES], start + CHALLENGE_BYTES
    if flags & _PROOF:
        proof, start = body[start : start + PROOF_BYTES], start + PROOF_BYTES
    token, padding = None, 0
    if flags & _TOKEN:
        token, start = body[start : start + TOKEN_BYTES], start + TOKEN_BYTES
    if flags & _PADDED:
        padding = int.from_bytes(body[start : start + 2], "big")
        start += 2 + padding
        if not padding or not bytes(padding).startswith(body[start - padding : start]):
            raise WireError("wrong_fields")
    if start > len(body):
        raise WireError("truncated")
    return Letter(
        bool(flags & _REPLY),
        bool(flags & LIGHT),
        body[1],
        body[2:HEAD_BYTES],
        challenge,
        proof,
        body[start:],
        token,
        padding,
    )
