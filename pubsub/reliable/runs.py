"""A run: one life of one publisher, which counts its events from 1; and what is missing of a run.

A publisher that starts again is another run, told from its others by `RUN_BYTES` random bytes. Wherever
events of several publishers are kept apart, ordered or counted, it is by *source*: the publisher's id and
its run, in one `bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from overlay.contact import ID_BYTES, PeerId
from overlay.errors import CamcastError, UsageError

RUN_BYTES = 8
SOURCE_BYTES = ID_BYTES + RUN_BYTES

Reason = Literal["forgotten", "lost", "overflow"]
"""Why events will not come:

    forgotten   those who had them let them go: retention, memory or patience had ended
    lost        nobody has them any more: their holders, or their only disk, are gone
    overflow    the receiver's own queue was full
"""


def source_of(publisher: bytes, run: bytes) -> bytes:
    """The source of a publisher's run."""
    if len(publisher) != ID_BYTES or len(run) != RUN_BYTES:
        raise UsageError(f"a source is {ID_BYTES} bytes of a publisher and {RUN_BYTES} of its run")
    return bytes(publisher) + run


def is_source(source: bytes) -> bool:
    """Whether this is a source; what a peer sends may not be one."""
    return len(source) == SOURCE_BYTES


def publisher_of(source: bytes) -> PeerId:
    return PeerId(source[:ID_BYTES])


def run_of(source: bytes) -> bytes:
    return source[ID_BYTES:]


@dataclass(frozen=True, slots=True)
class Gap:
    """Events `first` to `last` of a publisher's run will not come. It is told once for each of them."""

    publisher: PeerId | None
    """None where an archive does not know whose events they were: a disk has lost that too, or they are of
    more publishers than it keeps gaps for one by one. The numbers are the archive's own then."""
    run: bytes
    """Which run of the publisher; empty where `publisher` is None."""
    first: int
    last: int
    reason: Reason

    @classmethod
    def of(cls, source: bytes, first: int, last: int, reason: Reason) -> Gap:
        """A gap in what comes from a source; empty where it is not known."""
        publisher = publisher_of(source) if source else None
        return cls(publisher, run_of(source), first, last, reason)

    @property
    def source(self) -> bytes:
        """The publisher and its run; empty where they are not known."""
        return b"" if self.publisher is None else source_of(self.publisher, self.run)

    @property
    def count(self) -> int:
        """How many numbers are missing."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        whose = "" if self.publisher is None else f" of {self.publisher.hex()[:8]}"
        return f"{self.first} to {self.last}{whose} are missing ({self.reason})"


Gaps = Literal["skip", "give", "raise"]
"""What happens in an iteration where events will not come: they are left out, a `Gap` comes in their place,
or `GapError` is raised, and the iteration goes on after it."""


class GapError(CamcastError):
    """Something that was to come without gaps has one all the same; `gap` says what is missing."""

    def __init__(self, gap: Gap, advice: str = "") -> None:
        super().__init__(f"events {gap}{': ' + advice if advice else ''}")
        self.gap = gap
