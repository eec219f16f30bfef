"""What the conductor of a live run asks of the processes that hold its nodes, over their pipes.

Every order is answered once; the first answer comes unasked, when the process is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A node that is to join a community; `number` names it from then on."""

    number: int
    topic: str
    trace: str
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Join:
    """Start nodes, all at once; answered with `{number: (id, address)}` when all have joined."""

    newcomers: tuple[Newcomer, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an event from a node; answered when its copies have been sent."""

    number: int
    upward: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """Answered with `{number: contacts}`: what each node's tables hold now."""


@dataclass(frozen=True, slots=True)
class Count:
    """Answered with the copies of events that the nodes have received, in all."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close all nodes and end; answered when their traces are complete."""


Order = Join | Publish | Look | Count | Close
