"""The seeds of the latest networks, and one forced upon all: what it takes to replay a failure."""

from __future__ import annotations

from collections import deque

_MOST_REMEMBERED = 8

recent: deque[int] = deque(maxlen=_MOST_REMEMBERED)
"""The seeds of the networks made last, the latest at the end."""
_forced: int | None = None


def force(seed: int | None) -> None:
    """Give every network of this process this seed, whatever it asks for; None ends it."""
    global _forced
    _forced = seed


def choose(seed: int) -> int:
    """The seed that a network which asks for `seed` gets."""
    chosen = seed if _forced is None else _forced
    recent.append(chosen)
    return chosen
