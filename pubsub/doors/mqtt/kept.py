"""A session as an archive keeps it, so that a client may go on at any door.

The door that has the session writes a *record* of it: its subscriptions and how far each is, the packet ids
of QoS 2 messages that are on their way to the client, and how often the client has released each of its own.
A record is whole; the latest one counts. What follows from a change waits until a record with it is safe:

- a QoS 2 message is sent when its packet id is recorded, so that another door sends it again under the same
  packet id, by which the client knows it;
- PUBREL is sent when it is recorded that the client has the message, so that no door sends that again;
- a message of the client is published under an id made of its packet id and of how often that was released
  before, so that it has the same one whichever door publishes it; PUBCOMP is sent when the release is
  recorded;
- SUBACK and UNSUBACK are sent when the subscriptions are recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

INCARNATION_BYTES = 16
KEY_BYTES = 16
"""Bytes of an event's id."""

_RUN_BYTES = 8
_LAST_PACKET_ID = 0xFFFF


class Sent(NamedTuple):
    """A QoS 2 message that is on its way to the client."""

    packet_id: int
    key: bytes
    """The event's id; empty for a message that no archive keeps for the client."""
    received: bool
    """The client has it and has said so."""


class KeptSubscription(NamedTuple):
    """A subscription of the client."""

    filter: str
    options: int
    """As in a SUBSCRIBE packet."""
    identifier: int
    """0 for none."""
    position: bytes
    """What the client has of what an archive keeps for the subscription; empty without one."""
    finished: tuple[bytes, ...]
    """Keys of messages behind the position that the client has too."""


@dataclass(slots=True)
class Record:
    """What is kept of a session."""

    incarnation: bytes
    """Tells this session from others of the same client."""
    expiry: float
    is_connected: bool
    released: dict[int, int] = field(default_factory=dict)
    """How often each packet id of the client's own QoS 2 messages was released."""
    sent: list[Sent] = field(default_factory=list)
    finished: list[bytes] = field(default_factory=list)
    """Keys of messages that the client has, and that an archive may bring again."""
    subscriptions: list[KeptSubscription] = field(default_factory=list)
    will: bytes = b""
    """The id of the client's will at the archive; empty without one."""

    def to_data(self) -> list[Any]:
        return [
            self.incarnation,
            self.expiry,
            self.is_connected,
            [list(one) for one in _ranges(self.released)],
            [list(one) for one in self.sent],
            self.finished,
            [[*one[:4], list(one.finished)] for one in self.subscriptions],
            self.will,
        ]

    @classmethod
    def from_data(cls, data: Any) -> Record:
        """`ValueError` for anything that is not a record: whoever may publish may write one."""
        try:
            incarnation, expiry, is_connected, ranges, sent, finished, subscriptions, will = data
            released: dict[int, int] = {}
            for first, last, times in ranges:
                if not 0 < _int(first) <= _int(last) <= _LAST_PACKET_ID:
                    raise ValueError("packet ids are 1 to 65,535")
                released |= dict.fromkeys(range(first, last + 1), _int(times))
            return cls(
                _bytes(incarnation),
                float(expiry),
                bool(is_connected),
                released,
                [Sent(_int(id), _bytes(key), bool(received)) for id, key, received in sent],
                [_bytes(key) for key in finished],
                [
                    KeptSubscription(
                        _text(filter),
                        _int(options),
                        _int(identifier),
                        _bytes(position),
                        tuple(map(_bytes, finished)),
                    )
                    for filter, options, identifier, position, finished in subscriptions
                ],
                _bytes(will),
            )
        except TypeError as error:
            raise ValueError(str(error)) from None


def _ranges(released: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Packet ids that follow each other and were released as often as each other: clients count upwards, so
    these are few."""
    first = last = times = 0
    for packet_id in sorted(released):
        if packet_id != last + 1 or released[packet_id] != times:
            if first:
                yield first, last, times
            first, times = packet_id, released[packet_id]
        last = packet_id
    if first:
        yield first, last, times


def _int(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is not a number")
    return value


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise ValueError(f"{value!r:.40} is not bytes")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.40} is not a text")
    return value


def event_id(incarnation: bytes, packet_id: int, released: int) -> bytes:
    """The id under which a client's QoS 2 message is published, by whichever door: a run for each session,
    in which clients that count their packet ids upwards leave few gaps."""
    run = hashlib.blake2s(incarnation, digest_size=_RUN_BYTES, person=b"mqtt-2").digest()
    return run + (released << 16 | packet_id).to_bytes(KEY_BYTES - _RUN_BYTES, "big")


class Keeping(Protocol):
    """A session's records at an archive, of which this door is the only writer."""

    token: bytes
    """Bytes of chance: the incarnation of a session that begins here."""

    def write(self, record: Record, written: Callable[[bool], None]) -> None:
        """`written` is told whether the record is safe. The next one is written after that."""
        ...

    def end(self, forget: bool) -> None:
        """Write nothing more; with `forget` the archive forgets the session."""
        ...


class Keeper:
    """Writes records as the session changes, one at a time; one record has all changes since the last."""

    def __init__(
        self, keeping: Keeping, record: Callable[[], Record], lost: Callable[[], None]
    ) -> None:
        """`lost`: a record could not be made safe; nothing more is written then."""
        self._keeping = keeping
        self._record = record
        self._lost = lost
        self._waiting: list[Callable[[], None]] = []
        self._is_writing = False
        self._is_over = False

    def changed(self, then: Callable[[], None] = lambda: None) -> None:
        """The session has changed; `then` is called when that is safe, unless the session moves on before."""
        self._waiting.append(then)
        if not self._is_writing and not self._is_over:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._is_writing = True

        def written(is_safe: bool) -> None:
            self._is_writing = False
            if self._is_over:
                return
            if not is_safe:
                self.end(forget=False)
                self._lost()
                return
            for then in waiting:
                then()
            if self._waiting and not self._is_writing and not self._is_over:
                self._write()

        self._keeping.write(self._record(), written)

    def end(self, forget: bool) -> None:
        if not self._is_over:
            self._is_over = True
            self._waiting.clear()
            self._keeping.end(forget)
