"""Which settings of a node a distributor takes; those about events are for the topics that feed services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from overlay.errors import UsageError
from pubsub.config import ConfigurationError, NodeConfig

OF_EVENTS = ("mode", "links", "signatures", "parameters", "topic_parameters")
"""What counts only where a topic feeds a service."""

OF_PUBLISHERS = ("dissemination", "durability", "trace")
"""What counts for nodes that applications use."""


def distributor_settings(settings: Mapping[str, Any], *, feeds: bool) -> NodeConfig:
    """The settings of a distributor, which has `feeds` or none; `UsageError` for those without effect."""
    try:
        node = NodeConfig(**settings)
    except TypeError as error:
        text = str(error).replace("NodeConfig.__init__()", "Distributor()")
        raise UsageError(text) from None
    if not node.uses_dht:
        raise ConfigurationError(
            f'mode "{node.mode}" has no DHT, in which distributors are found: choose another mode'
        )
    refuse(node, OF_PUBLISHERS, "on a distributor")
    if not feeds:
        refuse(node, OF_EVENTS, "on a distributor without topics")
    return node


def refuse(node: NodeConfig, names: Iterable[str], where: str) -> None:
    """Raise `ConfigurationError` for the first of these settings that is not the usual one."""
    usual = NodeConfig()
    for name in names:
        if getattr(node, name) != getattr(usual, name):
            raise ConfigurationError(f"{name} has no effect {where}: leave it out")
