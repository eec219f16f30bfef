"""The settings of the membership services, apart from the services: these are loaded when a mode is used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from overlay.errors import UsageError

MOST_LEASE_SECONDS = 86_400.0
"""No lease is longer than a day, whatever a member asks for."""

MOST_NEIGHBOURS = 64
"""The most members of an active view, whatever a peer makes the community's size look like."""

LIGHT_REDRAWS = 2
"""How many times as long a light member waits before it draws its tables anew."""


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
    """The longest lease of a subscription. In a community of N the lease is 8 N seconds between
    `shortest_lease_seconds` and this, and renewed in its second half: so somebody renews every six
    seconds or more often, and meets the members that the directory knows. That joins the halves of a healed
    partition."""

    shortest_lease_seconds: float = 120.0
    """The lease in a small community."""

    answer_seconds: float = 2.0
    """How long a subscriber waits for a contact's welcome before it tries again."""

    light: bool = False
    """A light member sends heartbeats, and is sent them, eight times as seldom; its crash is noticed later. A
    node that is a light member of the DHT is one here as well."""

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
        return min(max(8 * size, self.shortest_lease_seconds), self.lease_seconds)

    @property
    def grace_seconds(self) -> float:
        """How much longer than that others hold a subscription, so that a renewal finds time."""
        return 15 * self.answer_seconds


@dataclass(frozen=True, slots=True)
class StructuredConfig:
    """One community's drawn tables."""

    c: float = 5.0
    """A table has floor(ln N + c) members. 0 or more."""

    shortest_redraw_seconds: float = 15.0
    """The least time between two drawings of a whole table."""

    longest_redraw_seconds: float = 300.0
    """The most time between two drawings, in a community that does not change. A light member of the DHT
    waits twice as long."""

    change: float = 0.2
    """A table is drawn again when this part of the community has changed, by joining, leaving or crashing, as
    far as the table shows it, or when more than this part of the table is missing. More than 0, at most
    1."""

    settle_seconds: float = 1.0
    """How long a newcomer waits for members to take it into their tables before it says it has joined."""

    def __post_init__(self) -> None:
        if not 0 <= self.c < math.inf:
            raise UsageError(f"c must be 0 or more, not {self.c}")
        if not 0 < self.change <= 1:
            raise UsageError(f"change must be more than 0 and at most 1, not {self.change}")
        if not 0 < self.shortest_redraw_seconds <= self.longest_redraw_seconds < math.inf:
            raise UsageError(
                "shortest_redraw_seconds must be more than 0 and at most longest_redraw_seconds, not"
                f" {self.shortest_redraw_seconds} and {self.longest_redraw_seconds}"
            )
        if not 0 <= self.settle_seconds < math.inf:
            raise UsageError(f"settle_seconds must be 0 or more, not {self.settle_seconds}")

    def table_size(self, size: float) -> int:
        """Members of a table in a community of `size`."""
        return math.floor(math.log(max(size, 1.0)) + self.c)


@dataclass(frozen=True, slots=True)
class HyParViewConfig:
    """One community's HyParView; every member should run the same. Times are seconds."""

    c: float = 5.0
    """An active view has floor(ln N + c) members. 0 or more."""

    passive_factor: int = 6
    """A passive view has at most passive_factor * floor(ln N + c) members. At least 1."""

    active_walk: int = 6
    """Steps of the walk that forwards a join (ARWL in the paper). 1 to 32."""

    passive_walk: int = 3
    """The member that many steps before the end of the walk takes the newcomer into its passive view (PRWL).
    0 to `active_walk`."""

    shuffle_seconds: float = 40.0
    """Each member begins one shuffle this often."""

    shuffled_active: int = 3
    """Neighbours in a shuffle. 0 to 16."""

    shuffled_passive: int = 4
    """Members of the passive view in a shuffle. 0 to 16."""

    keep_seconds: float = 3.5
    """Each member asks one neighbour for a sign of life this often: 2 / keep_seconds messages a second and
    member, whatever the views' sizes."""

    patience: int = 4
    """Questions to one neighbour without an answer, in a row, before it is taken for dead. At least 1."""

    answer_seconds: float = 2.0
    """How long an answer is waited for before somebody else is asked."""

    settle_seconds: float = 1.0
    """How long a newcomer with one neighbour waits for more before it says it has joined."""

    shortest_visit_seconds: float = 60.0
    """The least time between two visits of one member to the directory. In a community of N it is 4 N seconds
    between this and `longest_visit_seconds`: so somebody visits every four seconds or more often."""

    longest_visit_seconds: float = 900.0
    """The most time between two visits."""

    def __post_init__(self) -> None:
        if not 0 <= self.c < math.inf:
            raise UsageError(f"c must be 0 or more, not {self.c}")
        for name, least, most in (
            ("passive_factor", 1, 64),
            ("active_walk", 1, 32),
            ("passive_walk", 0, self.active_walk),
            ("shuffled_active", 0, 16),
            ("shuffled_passive", 0, 16),
            ("patience", 1, 1000),
        ):
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{name} must be {least} to {most}, not {getattr(self, name)}")
        for name in ("shuffle_seconds", "keep_seconds", "answer_seconds", "shortest_visit_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if not 0 <= self.settle_seconds < math.inf:
            raise UsageError(f"settle_seconds must be 0 or more, not {self.settle_seconds}")
        if not self.shortest_visit_seconds <= self.longest_visit_seconds < math.inf:
            raise UsageError(
                "longest_visit_seconds must be shortest_visit_seconds or more, not "
                f"{self.longest_visit_seconds}"
            )

    def neighbours(self, size: float) -> int:
        """How many neighbours a member of a community of `size` wants."""
        return max(1, min(math.floor(math.log(max(size, 1.0)) + self.c), MOST_NEIGHBOURS))

    def visit_seconds(self, size: float) -> float:
        """The most seconds from one visit to the directory to the next."""
        return min(max(4 * size, self.shortest_visit_seconds), self.longest_visit_seconds)


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """The parameters of whichever service runs."""

    scamp: ScampConfig = field(default_factory=ScampConfig)
    """Settings of the unstructured and the semi-structured mode."""

    structured: StructuredConfig = field(default_factory=StructuredConfig)
    """Settings of the structured mode."""

    hyparview: HyParViewConfig = field(default_factory=HyParViewConfig)
    """Settings of the mode HyParView."""

    balance: bool = True
    """True: members see to it that enough others hold them, newcomers are taken into tables at once, and
    SCAMP takes a census. False: the rule as published, nothing but SCAMP's subscriptions, leases and
    heartbeats, or tables drawn from the overlay and drawn again at an interval, or HyParView without visits
    to the directory. Each member decides for itself, so all of a network should have the same."""

    def for_light_member(self) -> MembershipConfig:
        """The same for a light member of the DHT, which says and asks less."""
        seconds = LIGHT_REDRAWS * self.structured.longest_redraw_seconds
        return replace(
            self,
            scamp=replace(self.scamp, light=True),
            structured=replace(self.structured, longest_redraw_seconds=seconds),
        )
