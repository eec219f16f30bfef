"""What travels: what participants tell of themselves, messages with their audience, acknowledgements,
garbage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.wire import message
from pubsub.reliable.runs import RUN_BYTES, is_source, source_of

FINGERPRINT_BYTES = 8
MOST_FILTER = 4096
"""Characters of a participant's filter."""

MOST_SIGHT_BYTES = 8192
"""Bytes of the bits that say who sees a view."""

LARGEST = (1 << 62) - 1
"""The largest boot, version or number that is believed; what is hashed or logged is within 64 bits."""

SourceNumbers = tuple[bytes, int, tuple[tuple[int, int], ...]]
"""A source, up to where every number of it is meant, and which ranges above, from the lowest."""

NumbersOnWire = tuple[SourceNumbers, ...]


@message(0x60)
class JoinTopic:
    """A process that is not a participant yet asks: announce me to all, on my behalf."""

    topic: str
    subscriber: Contact
    boot: int
    run: bytes
    filter: str

    def __post_init__(self) -> None:
        _check_person(self.boot, self.run, self.filter)


@message(0x61)
class Entry:
    """One participant, as its sponsor or itself has announced it. The entry of a later boot replaces that of
    an earlier one; within a boot, having left is final, and a later revision replaces an earlier one."""

    contact: Contact
    boot: int
    """Grows with every start of the participant, and whenever it has to announce itself anew."""
    left: bool
    revision: int
    """Grows when the participant changes its filter."""
    run: bytes
    """In which its messages are numbered: another one after a restart without a log."""
    filter: str
    before: NumbersOnWire
    """The messages that it does not get because it has them, or subscribed after them, and that somebody may
    still hold."""

    def __post_init__(self) -> None:
        _check_person(self.boot, self.run, self.filter)
        check_counts(self.revision)
        check_numbers(self.before)

    @property
    def id(self) -> PeerId:
        return self.contact.id

    @property
    def source(self) -> bytes:
        return source_of(self.id, self.run)

    @property
    def stamp(self) -> tuple[int, bool, int]:
        """What orders the entries of one participant."""
        return (self.boot, self.left, self.revision)


@message(0x62)
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
class Sight:
    """Who has said to see a view."""

    sees: bytes
    """The fingerprint of all that decides the view."""
    by: bytes
    """One bit for each participant, the last for the lowest id: a participant that has the fingerprint knows
    them."""

    def __post_init__(self) -> None:
        if len(self.sees) != FINGERPRINT_BYTES:
            raise UsageError("a fingerprint has 8 bytes")
        if len(self.by) > MOST_SIGHT_BYTES:
            raise UsageError(f"a sight is of at most {8 * MOST_SIGHT_BYTES} participants")


@message(0x64)
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
        wrong = not is_source(source) or mark < 0
        highest = mark
        for first, last in ranges:
            wrong = wrong or not highest + 1 < first <= last
            highest = last
        if wrong or highest > LARGEST:
            raise UsageError("the numbers of a source are a mark and ranges above it, apart")


def check_run(run: bytes) -> None:
    if len(run) != RUN_BYTES:
        raise UsageError(f"a run has {RUN_BYTES} bytes")


def _check_person(boot: int, run: bytes, filter: str) -> None:
    check_counts(boot)
    check_run(run)
    if len(filter) > MOST_FILTER:
        raise UsageError(f"a filter is at most {MOST_FILTER} characters")


PART_BYTES = 128 * 1024
"""About the size of one part; channels carry a megabyte."""

RANGE_BYTES = 24
"""Of one range of numbers, at most; a source with its mark takes about twice as many."""

MOST_RANGES_TOGETHER = 2048
"""A source with more ranges of numbers is told in pieces."""


def numbers_size(numbers: NumbersOnWire) -> int:
    """About how many bytes some numbers take."""
    return RANGE_BYTES * sum(2 + len(ranges) for _, _, ranges in numbers)


def pieces(numbers: NumbersOnWire) -> Iterator[NumbersOnWire]:
    """Numbers that together say the same, each of one source and of few ranges."""
    step = MOST_RANGES_TOGETHER
    for source, mark, ranges in numbers:
        for at in range(0, max(1, len(ranges)), step):
            yield ((source, mark, ranges[at : at + step]),)


StatementOnWire = tuple[PeerId, int, int, bytes, NumbersOnWire]
"""Owner, its boot, the statement's version, the digest of the participants that the owner knew, and the
numbers of the messages that the owner has, of some sources."""


ASIDE_KINDS = ("best-effort", "stubborn", "direct", "taken", "refused")


@message(0x66)
class Item:
    """One message, or for those it is not addressed to, the place that it would have had."""

    publisher: PeerId
    run: bytes
    number: int
    only: bool
    """Addressed to those named and nobody else, or to everybody but those named."""
    named: tuple[PeerId, ...]
    payload: bytes | None
    """None for those to whom the message is not addressed."""

    def __post_init__(self) -> None:
        check_counts(self.number)
        check_run(self.run)
        if self.number < 1:
            raise UsageError("messages are numbered from 1")

    @property
    def source(self) -> bytes:
        return source_of(self.publisher, self.run)

    def is_for(self, peer: PeerId) -> bool:
        return (peer in self.named) == self.only

    def stub(self) -> Item:
        """The same without its payload."""
        return replace(self, payload=None)


@message(0x67)
class Cast:
    """Messages, published or forwarded, and what their sender knows to be garbage."""

    topic: str
    items: tuple[Item, ...]
    garbage: NumbersOnWire
    digest: bytes
    """A digest of the participants that the sender knows."""

    def __post_init__(self) -> None:
        check_numbers(self.garbage)


@message(0x68)
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
class Aside:
    """A message outside reliable broadcast: best-effort, stubborn, or for the receiver alone; or what became
    of a stubborn one, which run and number name then."""

    topic: str
    kind: str
    run: bytes
    number: int
    payload: bytes

    def __post_init__(self) -> None:
        check_counts(self.number)
        check_run(self.run)
        if self.kind not in ASIDE_KINDS:
            raise UsageError(f"a message aside is one of {', '.join(ASIDE_KINDS)}")
