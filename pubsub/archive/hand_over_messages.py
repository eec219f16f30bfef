"""What is said when a topic is handed from one archive to another on an operator's word."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.wire import message

WORKING, DONE, REFUSED = "working", "done", "refused"
"""The states of a hand-over."""


@message(0x90)
@dataclass(frozen=True, slots=True)
class HandOver:
    """An operator asks an archive to hand a topic over; repeated until the answer is `done` or `refused`."""

    topic: str
    to: str
    """`host:port` of the archive that is to have it."""
    within: float
    """Seconds that it may take."""
    nonce: int
    """Tells one wish from the next one; the same in its repetitions."""


@message(0x91)
@dataclass(frozen=True, slots=True)
class HandedOver:
    """How far a hand-over is. An archive that does not take a topic says so with it, too."""

    topic: str
    nonce: int
    """That of the request; 0 in the answer of one archive to another."""
    state: str
    """`working`, `done` or `refused`."""
    why: str
    """Why it was refused or failed; empty otherwise."""
