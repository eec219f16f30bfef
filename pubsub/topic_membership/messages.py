"""What participants of a topic tell each other about themselves."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.wire import message

FINGERPRINT_BYTES = 8
MOST_FILTER = 4096
"""Characters of a participant's filter."""

MOST_SIGHT_BYTES = 8192
"""Of the bits that say who sees a view."""

LARGEST = (1 << 62) - 1
"""The largest boot, life, version or number that is believed; what is hashed or logged is within 64 bits."""

NumbersOnWire = tuple[tuple[bytes, int, tuple[tuple[int, int], ...]], ...]
"""For each source: up to where every number is meant, and which ranges above, from the lowest."""


@message(0x60)
@dataclass(frozen=True, slots=True)
class Subscribe:
    """From one that is no participant yet: please announce me to all, on my behalf."""

    topic: str
    subscriber: Contact
    boot: int
    life: int
    filter: str

    def __post_init__(self) -> None:
        _check_person(self.boot, self.life, self.filter)


@message(0x61)
@dataclass(frozen=True, slots=True)
class Entry:
    """One participant, as its sponsor or itself has announced it. The entry of a later boot replaces that of
    an earlier one; within a boot, having left is final, and a later revision replaces an earlier one."""

    contact: Contact
    boot: int
    """Grows with every start of the participant, and whenever it has to announce itself anew."""
    left: bool
    revision: int
    """Grows when the participant changes its filter."""
    life: int
    """Which of its numberings its messages belong to: another one after a restart without a log."""
    filter: str
    before: NumbersOnWire
    """The messages that it does not get because it has them, or subscribed after them, and that somebody may
    still hold."""

    def __post_init__(self) -> None:
        _check_person(self.boot, self.life, self.filter)
        check_counts(self.revision)
        check_numbers(self.before)

    @property
    def id(self) -> PeerId:
        return self.contact.id

    @property
    def stamp(self) -> tuple[int, bool, int]:
        """What orders the entries of one participant."""
        return (self.boot, self.left, self.revision)


@message(0x62)
@dataclass(frozen=True, slots=True)
class Row:
    """One line of the matrix of channel states: the owner's own channels. All that are not named are open."""

    owner: PeerId
    boot: int
    version: int
    """The logical timestamp: a later version replaces an earlier one of the same boot."""
    closed: tuple[PeerId, ...]

    def __post_init__(self) -> None:
        check_counts(self.boot, self.version)


@message(0x63)
@dataclass(frozen=True, slots=True)
class Sight:
    """Who has said to see a view."""

    sees: bytes
    """The fingerprint of all that decides the view."""
    by: bytes
    """One bit for each participant, the last for the lowest id: whoever has the fingerprint knows them."""

    def __post_init__(self) -> None:
        if len(self.sees) != FINGERPRINT_BYTES:
            raise UsageError("a fingerprint has 8 bytes")
        if len(self.by) > MOST_SIGHT_BYTES:
            raise UsageError(f"a sight is of at most {8 * MOST_SIGHT_BYTES} participants")


@message(0x64)
@dataclass(frozen=True, slots=True)
class Knowledge:
    """What has changed since the receiver was last told, and a fingerprint of everything for comparison."""

    topic: str
    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    sight: Sight | None
    fingerprint: bytes
    asks: bool
    """The receiver is asked to answer if its own knowledge has another fingerprint."""
    has: NumbersOnWire | None = None
    """For one that its sponsor has just announced: all messages that it does not get."""

    def __post_init__(self) -> None:
        if self.has is not None:
            check_numbers(self.has)


@message(0x65)
@dataclass(frozen=True, slots=True)
class Absent:
    """From a node that was sent something as a participant, and is none. It goes as a datagram: if it is
    lost, the next message brings another, and late or repeated it does no harm."""

    topic: str


def check_counts(*counts: int) -> None:
    for count in counts:
        if not 0 <= count <= LARGEST:
            raise UsageError(f"{count} is not within 0 and {LARGEST}")


def check_numbers(numbers: NumbersOnWire) -> None:
    for source, mark, ranges in numbers:
        wrong = len(source) != FINGERPRINT_BYTES or mark < 0
        highest = mark
        for first, last in ranges:
            wrong = wrong or not highest + 1 < first <= last
            highest = last
        if wrong or highest > LARGEST:
            raise UsageError("the numbers of a source are a mark and ranges above it, apart")


def _check_person(boot: int, life: int, filter: str) -> None:
    check_counts(boot, life)
    if len(filter) > MOST_FILTER:
        raise UsageError(f"a filter is at most {MOST_FILTER} characters")
