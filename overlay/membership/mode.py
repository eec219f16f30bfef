"""The one place where a membership service is chosen: unstructured, semi-structured or structured.

Unstructured and semi-structured are the same SCAMP and differ in the directory that they are given:
configured gateways (`overlay.membership.gateways`) or the DHT's. Structured needs the DHT's, for samples and
sizes. After this, nothing knows which one runs (CAMCAST, section 5.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from overlay.context import Context
from overlay.errors import UsageError
from overlay.membership.interface import Membership, MembershipListener, TopicDirectory
from overlay.membership.scamp.config import ScampConfig
from overlay.membership.scamp.service import ScampMembership
from overlay.membership.structured.config import StructuredConfig
from overlay.membership.structured.service import StructuredMembership
from overlay.metrics import Metrics


class Mode(StrEnum):
    """Where contacts and tables come from."""

    UNSTRUCTURED = "unstructured"
    SEMI_STRUCTURED = "semi-structured"
    STRUCTURED = "structured"

    @classmethod
    def named(cls, name: str) -> Mode:
        """The mode of this name; `UsageError` naming the modes when there is none."""
        try:
            return cls(name)
        except ValueError:
            modes = ", ".join(mode.value for mode in cls)
            raise UsageError(f"{name!r} is no mode: write one of {modes}") from None

    @property
    def uses_dht(self) -> bool:
        """Whether the directory is the DHT's; else it is the configured gateways."""
        return self is not Mode.UNSTRUCTURED


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """The parameters of whichever service runs."""

    scamp: ScampConfig = field(default_factory=ScampConfig)
    structured: StructuredConfig = field(default_factory=StructuredConfig)

    balance: bool = True
    """True: members see to it that enough others hold them, newcomers are taken into tables at once, and
    SCAMP takes a census. False: the rule as published, nothing but SCAMP's subscriptions, leases and
    heartbeats, or tables drawn from the overlay and drawn again at an interval. Each member decides for
    itself, so all of a network should have the same."""


def make_membership(
    mode: Mode,
    topic: str,
    context: Context,
    directory: TopicDirectory,
    listener: MembershipListener,
    config: MembershipConfig | None = None,
    metrics: Metrics | None = None,
) -> Membership:
    """One process's membership of one community, not yet started."""
    config = config or MembershipConfig()
    if mode is Mode.STRUCTURED:
        return StructuredMembership(
            topic, context, directory, listener, config.structured, metrics, balance=config.balance
        )
    return ScampMembership(
        topic, context, directory, listener, config.scamp, metrics, balance=config.balance
    )
