"""The one list of membership modes. A new mode is a service in a file of its own and one entry here.

Unstructured and semi-structured are the same SCAMP and differ in where contacts come from: configured
gateways (`overlay.membership.gateways`) or the DHT. Structured needs the DHT, for samples and sizes.
HyParView takes either. After this, nothing knows which service runs (CAMCAST, section 5.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from overlay.context import Context
from overlay.membership.hyparview import HyParViewConfig, HyParViewMembership
from overlay.membership.interface import Membership, MembershipListener, TopicDirectory
from overlay.membership.scamp.community import ScampConfig
from overlay.membership.scamp.service import ScampMembership
from overlay.membership.structured.drawing import StructuredConfig
from overlay.membership.structured.service import StructuredMembership
from overlay.metrics import Metrics

ModeName = Literal["unstructured", "semi-structured", "structured", "hyparview"]
Contacts = Literal["gateways", "dht", "either"]


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


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to keep topic tables."""

    service: Callable[..., Membership]
    """The class of the service."""

    part: Literal["scamp", "structured", "hyparview"]
    """Which part of `MembershipConfig` is its configuration."""

    contacts: Contacts
    """Where members of a community are found first: configured gateways, the DHT, or whichever there is."""

    samples: bool = False
    """Whether super-topic tables, too, are uniform samples of the DHT."""

    def uses_dht(self, has_gateways: bool) -> bool:
        """Whether the directory is the DHT's; else it is the configured gateways."""
        return self.contacts == "dht" or (self.contacts == "either" and not has_gateways)


MODES: Mapping[ModeName, Mode] = {
    "unstructured": Mode(ScampMembership, "scamp", contacts="gateways"),
    "semi-structured": Mode(ScampMembership, "scamp", contacts="dht"),
    "structured": Mode(StructuredMembership, "structured", contacts="dht", samples=True),
    "hyparview": Mode(HyParViewMembership, "hyparview", contacts="either"),
}


def make_membership(
    mode: ModeName,
    topic: str,
    context: Context,
    directory: TopicDirectory,
    listener: MembershipListener,
    config: MembershipConfig | None = None,
    metrics: Metrics | None = None,
) -> Membership:
    """One process's membership of one community, not yet started."""
    config = config or MembershipConfig()
    chosen = MODES[mode]
    part, balance = getattr(config, chosen.part), config.balance
    return chosen.service(topic, context, directory, listener, part, metrics, balance=balance)
