"""Topic view and stable topic view (DACE, section 5).

The *topic view* is whom a participant believes reachable now. A *stable topic view* is one on which all its
members have converged. A participant says which view it sees, by the fingerprint of everything that it knows
(who has joined, and the timestamps of all rows), and **reaches** the view when it still sees it and every
member has said that it sees the same. So there is a chain of messages from every member to every other
between the last change and the moment at which the view is reached, as section 5.1.2 asks.

    (TM1) agreement      if p reaches the views v1 and then v2, both with q in them, and q reaches v1, then q
                         does so before p reaches v2: when p reaches v2, q has said that it sees v2, and
                         what was seen never comes back, so q does not see v1 again. The paper's sentence says
                         this of every q, its formula of those that reach v1: q may be overtaken, and skip v1.
    (TM2) accuracy       those who can communicate for ever have the same stable view in the end
    (TM3) completeness   those who cannot be reached for ever are in the end in no stable view
    (TM4) integrity      whoever reaches a view is in it

A fingerprint never comes back: timestamps only grow, boots only grow, and when somebody leaves, those who
stay raise their timestamps. A participant that restarts, or announces itself anew, counts as another one:
views hold peers with boots.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.contact import PeerId


@dataclass(frozen=True, slots=True)
class TopicView:
    """Whom a participant believes reachable, itself included."""

    members: tuple[PeerId, ...]
    """In the order of their ids."""


@dataclass(frozen=True, slots=True)
class StableView:
    """A view that its members have converged on: equal ids mean equal views."""

    id: bytes
    members: tuple[PeerId, ...]
    """In the order of their ids."""
    boots: tuple[int, ...] = field(repr=False)
    """Of the members, in the same order."""
