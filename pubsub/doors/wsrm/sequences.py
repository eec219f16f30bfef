"""The sequences of WS-ReliableMessaging at one archive. A core: no I/O, time as it is given.

A sequence is a run of events of one topic: message n is event n of the run. Messages go into the archive in
their order; what comes too early waits, within bounds, and what comes again is known by its number. A message
counts as stored when the archive has it *and* the sequence's record, which says how far it is, is on the disk
too. So nothing is acknowledged that a crash could take back; and a message that was archived just before a
crash is archived again under its old name, of which an archive takes no notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay import limited_msgpack
from overlay.wire import WireError
from pubsub.doors.wsrm.soap import Acknowledgement, SoapFault
from pubsub.event import RUN_BYTES

ID_BYTES = 16
_URN = "urn:uuid:"


@dataclass(frozen=True)
class WsrmConfig:
    """Bounds of a door for WS-ReliableMessaging."""

    sequences: int = 10_000
    """The most sequences at a time. Then the oldest one that has brought nothing gives way, or a new one is
    refused."""
    lifetime: float = 7 * 86_400.0
    """Seconds for which a sequence lives at most, counted from its creation."""
    waiting: int = 1_000
    """The most messages of a sequence that wait for one that is missing; others are not accepted."""
    waiting_bytes: int = 64 * 1024 * 1024
    """The most characters of messages that wait, of all sequences together; twice as many where the archive
    does not take what is next."""
    deadline: float = 10.0
    """Seconds until an answer goes out though the archive has not stored the message."""
    most_bodies: int = 64
    """Requests that are being received at one time, each of 1 MiB and a little at most; further ones are
    refused with 503."""
    body_seconds: float = 30.0
    """How long one request may take to come whole; then it is refused with 408."""


@dataclass(slots=True)
class Sequence:
    """One sequence, and what waits in it."""

    id: bytes
    topic: str
    managed: str
    """The archive's topic that it belongs to."""
    expires: float
    """Seconds since 1970."""
    stored: int = 0
    """Messages up to this number are safe."""
    is_closed: bool = False
    waiting: dict[int, str] = field(default_factory=dict)

    @property
    def identifier(self) -> str:
        digits = self.id.hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return _URN + "-".join(parts)

    @property
    def run(self) -> bytes:
        return self.id[:RUN_BYTES]

    @property
    def ready(self) -> list[str]:
        """The messages that can be stored next, in order."""
        found: list[str] = []
        while (content := self.waiting.get(self.stored + 1 + len(found))) is not None:
            found.append(content)
        return found

    def record(self, stored: int) -> bytes:
        """What is kept of it on disk, with this many messages stored."""
        return limited_msgpack.pack([self.topic, self.expires, stored, self.is_closed])


class Sequences:
    """All sequences of a door."""

    def __init__(
        self, config: WsrmConfig, now: Callable[[], float], new_id: Callable[[], bytes]
    ) -> None:
        """`now`: seconds since 1970. `new_id`: random bytes, `ID_BYTES` of them."""
        self._config = config
        self._now = now
        self._new_id = new_id
        self._all: dict[bytes, Sequence] = {}
        self._waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def load(self, managed: str, id: bytes, record: bytes) -> bool:
        """Take a sequence up again from its record; whether it could be read."""
        try:
            topic, expires, stored, is_closed = limited_msgpack.unpack(record)
        except (WireError, ValueError):
            return False
        self._all[id] = Sequence(id, topic, managed, expires, stored, is_closed)
        return True

    def create(self, topic: str, managed: str, expires: float | None) -> tuple[Sequence, float]:
        """A new sequence and its lifetime in seconds. `expires`: as asked for; None or 0 for no end."""
        if len(self._all) >= self._config.sequences:
            reason = "the archive has no room for another sequence"
            raise SoapFault(reason, "CreateSequenceRefused", by_sender=False)
        lifetime = min(expires or self._config.lifetime, self._config.lifetime)
        sequence = Sequence(self._new_id(), topic, managed, self._now() + lifetime)
        self._all[sequence.id] = sequence
        return sequence, lifetime

    def make_room(self) -> Sequence | None:
        """If there is no room for another sequence, remove the oldest one that has brought nothing."""
        if len(self._all) < self._config.sequences:
            return None
        for sequence in self._all.values():
            if not sequence.stored and not sequence.waiting:
                self.remove(sequence)
                return sequence
        return None

    def find(self, identifier: str) -> Sequence:
        """`SoapFault` when there is none, or no more."""
        try:
            sequence = self._all.get(bytes.fromhex(identifier.removeprefix(_URN).replace("-", "")))
        except ValueError:
            sequence = None
        if sequence is None or sequence.expires <= self._now():
            raise SoapFault("there is no such sequence here", "UnknownSequence", identifier)
        return sequence

    def take(self, sequence: Sequence, number: int, content: str) -> None:
        """A message has come. One that has come before, or for which there is no room, is let go."""
        if number <= sequence.stored or number in sequence.waiting:
            return
        if sequence.is_closed:
            raise SoapFault("the sequence is closed", "SequenceClosed", sequence.identifier)
        waiting, limit = len(sequence.waiting), self._config.waiting_bytes
        if number == sequence.stored + 1:  # it makes room, if the archive takes it
            waiting, limit = 0, 2 * limit
        if waiting >= self._config.waiting or self._waiting_bytes + len(content) > limit:
            return
        sequence.waiting[number] = content
        self._waiting_bytes += len(content)

    def stored(self, sequence: Sequence, upto: int) -> None:
        """Messages up to this number are safe, and so is the record that says so."""
        for number in range(sequence.stored + 1, upto + 1):
            self._waiting_bytes -= len(sequence.waiting.pop(number, ""))
        sequence.stored = max(sequence.stored, upto)

    def close(self, sequence: Sequence) -> None:
        """Nothing new is taken; what waits for a missing message is let go."""
        sequence.is_closed = True
        self._let_go(sequence)

    def remove(self, sequence: Sequence) -> None:
        self._all.pop(sequence.id, None)
        self._let_go(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        self._waiting_bytes -= sum(map(len, sequence.waiting.values()))
        sequence.waiting.clear()

    def remove_expired(self) -> list[Sequence]:
        now = self._now()
        expired = [one for one in self._all.values() if one.expires <= now]
        for one in expired:
            self.remove(one)
        return expired

    def acknowledgement(self, sequence: Sequence, *, nacks: bool = False) -> Acknowledgement:
        """How far it is. `nacks`: name what is missing instead, if anything is."""
        missing: list[int] = []
        if nacks and sequence.waiting:
            last = max(sequence.waiting)
            first = sequence.stored + 1
            numbers = range(first, min(last, first + 2 * self._config.waiting))
            missing = [number for number in numbers if number not in sequence.waiting]
        return Acknowledgement(
            sequence.identifier, sequence.stored, tuple(missing), sequence.is_closed
        )
