"""The parameters of SCAMP, with their formulas and units."""

from __future__ import annotations

import math
from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True, slots=True)
class ScampConfig:
    """One community's SCAMP; every member should run the same."""

    c: int = 1
    """Extra copies of a newcomer's subscription: newcomers alone make views of (c + 1) ln N members on
    average. 0 to 16."""

    margin: float = 5.0
    """A member sees to it that it is in ln N + margin views, or in everyone's where there are fewer; so
    views settle at as many members. 0 or more."""

    heartbeat_seconds: float = 3.0
    """Each member sends one heartbeat to one member of its view this often, and gets one echo: 2 /
    heartbeat_seconds messages a second and member, whatever the views' sizes."""

    patience: int = 4
    """Heartbeats to one member without an echo, in a row, before it is taken for dead. At least 1. A dead
    member is noticed after heartbeat_seconds * (view / 2 + patience), on average."""

    lease_seconds: float = 900.0
    """The longest lease of a subscription. In a community of N the lease is 4 N seconds between
    `shortest_lease_seconds` and this, and renewed in its second half: so somebody renews every three
    seconds or more often, and meets whoever the directory knows. That joins the halves of a healed
    partition."""

    shortest_lease_seconds: float = 120.0
    """The lease in a small community."""

    answer_seconds: float = 2.0
    """How long a subscriber waits for a contact's welcome before it tries again."""

    def __post_init__(self) -> None:
        if not 0 <= self.c <= 16:
            raise UsageError(f"c must be 0 to 16, not {self.c}")
        if not 0 <= self.margin < math.inf:
            raise UsageError(f"margin must be 0 or more, not {self.margin}")
        if self.patience < 1:
            raise UsageError(f"patience must be 1 or more, not {self.patience}")
        for name in ("heartbeat_seconds", "answer_seconds", "shortest_lease_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if not self.shortest_lease_seconds <= self.lease_seconds <= MOST_LEASE_SECONDS:
            raise UsageError(
                f"lease_seconds must be between shortest_lease_seconds and {MOST_LEASE_SECONDS},"
                f" not {self.lease_seconds}"
            )

    def holders(self, size: float) -> float:
        """How many views a member of a community of `size` should be in, and how many it should hold."""
        return min(size - 1, math.log(max(size, 1.0)) + self.margin)

    def lease(self, size: float) -> float:
        """The most seconds from one renewal of a subscription to the next in a community of `size`."""
        return min(max(4 * size, self.shortest_lease_seconds), self.lease_seconds)

    @property
    def grace_seconds(self) -> float:
        """How much longer than that others hold a subscription, so that a renewal finds time."""
        return 15 * self.answer_seconds


MOST_LEASE_SECONDS = 86_400.0
"""No lease is longer than a day, whoever asks for it."""
