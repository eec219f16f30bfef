"""The one list of membership modes. A new mode is a service in a file of its own and one entry here.

Unstructured and semi-structured are the same SCAMP and differ in where contacts come from: configured
gateways (`overlay.membership.gateways`) or the DHT. Structured needs the DHT, for samples and sizes.
HyParView takes either. After this, nothing knows which service runs (CAMCAST, section 5.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from overlay.context import Context
from overlay.membership.config import MembershipConfig
from overlay.membership.interface import Membership, MembershipListener, TopicDirectory
from overlay.metrics import Metrics

ModeName = Literal["unstructured", "semi-structured", "structured", "hyparview"]
Contacts = Literal["gateways", "dht", "either"]


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to keep topic tables."""

    service: str
    """The module and the class of the service, which is loaded when it is first used."""

    part: Literal["scamp", "structured", "hyparview"]
    """Which part of `MembershipConfig` is its configuration."""

    contacts: Contacts
    """Where members of a community are found first: configured gateways, the DHT, or whichever there is."""

    samples: bool = False
    """Whether super-topic tables, too, are uniform samples of the DHT."""

    def uses_dht(self, has_gateways: bool) -> bool:
        """Whether the directory is the DHT's; else it is the configured gateways."""
        return self.contacts == "dht" or (self.contacts == "either" and not has_gateways)


_SCAMP = "overlay.membership.scamp.service:ScampMembership"
_STRUCTURED = "overlay.membership.structured.service:StructuredMembership"
_HYPARVIEW = "overlay.membership.hyparview:HyParViewMembership"

MODES: Mapping[ModeName, Mode] = {
    "unstructured": Mode(_SCAMP, "scamp", contacts="gateways"),
    "semi-structured": Mode(_SCAMP, "scamp", contacts="dht"),
    "structured": Mode(_STRUCTURED, "structured", contacts="dht", samples=True),
    "hyparview": Mode(_HYPARVIEW, "hyparview", contacts="either"),
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
    module, _, name = chosen.service.partition(":")
    service: Callable[..., Membership] = getattr(import_module(module), name)
    counters = metrics or Metrics()
    return service(topic, context, directory, listener, part, counters, balance=balance)
