"""Which new durable names may begin in the past, and how far back (sections 3.1 and 5).

A name that the archive knows goes on where it was, whatever the policy says. So does one of which it has not
heard because another replica failed right after registering it: such a name begins some seconds back, which
does not count as a replay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from overlay.contact import PeerId
from pubsub.archive.errors import DurableUsageError

RECENT_SECONDS = 60.0
"""Who begins so little back is not asked for a permission."""


@dataclass(frozen=True)
class ReplayRule:
    """Lets new durable names that match begin up to `seconds` in the past."""

    names: str = "*"
    """As in a shell: `*` stands for any characters, `?` for one, `[ab]` for one of these."""
    seconds: float | None = None
    """How many seconds back at most; 0: not at all; None: from the beginning."""
    peers: tuple[PeerId, ...] = ()
    """For subscribers on these nodes only; none: on any. Without a network key anybody can pose as one."""

    def __post_init__(self) -> None:
        if not isinstance(self.names, str) or not self.names:
            raise DurableUsageError(
                f"a rule of replay is for names such as 'audit-*', not {self.names!r}"
            )
        if self.seconds is not None and not 0 <= self.seconds < math.inf:
            raise DurableUsageError(
                f"a rule of replay goes back 0 seconds or more, or to the beginning, not {self.seconds!r}"
            )
        for peer in self.peers:
            if not isinstance(peer, PeerId):
                raise DurableUsageError(f"a rule of replay is for ids of nodes, not {peer!r}")

    @classmethod
    def parse(cls, text: str) -> ReplayRule:
        """`NAME`, from the beginning, or `NAME=SECONDS`."""
        names, equals, seconds = text.rpartition("=")
        if not equals:
            return cls(text)
        try:
            return cls(names, float(seconds))
        except ValueError:
            raise DurableUsageError(
                f"{text!r} is not a replay rule: write NAME or NAME=SECONDS"
            ) from None

    def applies(self, name: str, peer: PeerId) -> bool:
        return fnmatchcase(name, self.names) and (not self.peers or peer in self.peers)


@dataclass(frozen=True)
class ReplayPolicy:
    """Of the rules that apply to a name the most generous one counts; without one it begins now."""

    rules: tuple[ReplayRule, ...] = (ReplayRule(),)

    def __post_init__(self) -> None:
        for rule in self.rules:
            if not isinstance(rule, ReplayRule):
                raise DurableUsageError(f"a policy of replay has rules, not {rule!r}")

    @classmethod
    def parse(cls, texts: Iterable[str]) -> ReplayPolicy:
        return cls(tuple(ReplayRule.parse(text) for text in texts))

    def refusal(self, name: str, peer: PeerId, age: float) -> str:
        """Why a new name of a subscriber there may not begin `age` seconds ago; empty when it may."""
        limits = [
            math.inf if rule.seconds is None else rule.seconds
            for rule in self.rules
            if rule.applies(name, peer)
        ]
        furthest = max(limits, default=0.0)
        if age <= max(furthest, RECENT_SECONDS):
            return ""
        if not furthest:
            return f'{name!r} may not replay what was archived before it: begin with since="now"'
        return f"{name!r} may begin at most {furthest:g} s ago: ask for a later time"
