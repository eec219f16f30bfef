"""What members with drawn tables say to each other; the topic comes first, so that a node can route it."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.wire import message


@message(0x3A)
@dataclass(frozen=True, slots=True)
class Drawn:
    """I drew you for my table, until I draw again in `seconds`: are you a member?"""

    topic: str
    seconds: float
    size: float
    """How many members there are, as far as I know."""
    take_in: bool
    """Few hold me in their tables: take me into yours."""
    newcomer: bool
    """I was no member before."""


@message(0x3B)
@dataclass(frozen=True, slots=True)
class Confirm:
    """I am a member; and for `seconds`, when more than 0, you are in my table."""

    topic: str
    seconds: float


@message(0x3C)
@dataclass(frozen=True, slots=True)
class Farewell:
    """I leave: forget me."""

    topic: str


@message(0x3D)
@dataclass(frozen=True, slots=True)
class Released:
    """I drew you, or held you, and have others in my table now."""

    topic: str
