"""Which settings of a node a distributor takes, and the settings of the nodes and clients inside it.

A service that is fed by a topic has a node of its own, on another port of the same host; the settings that
are about events are this node's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from overlay.contact import Address
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
    if node.mode == "unstructured":
        raise ConfigurationError(
            'mode "unstructured" has no DHT, in which distributors are found: choose another mode'
        )
    refuse(node, OF_PUBLISHERS, "on a distributor")
    if feeds:
        _check_port_is_free_to_choose(node)
    else:
        refuse(node, OF_EVENTS, "on a distributor without topics")
    return node


def refuse(node: NodeConfig, names: Iterable[str], where: str) -> None:
    """Raise `ConfigurationError` for the first of these settings that is not the usual one."""
    usual = NodeConfig()
    for name in names:
        if getattr(node, name) != getattr(usual, name):
            raise ConfigurationError(f"{name} has no effect {where}: leave it out")


def _check_port_is_free_to_choose(node: NodeConfig) -> None:
    if node.advertise is None:
        return
    listen, advertised = Address.parse(node.listen), Address.parse(node.advertise)
    if advertised.port not in (0, listen.port):
        raise ConfigurationError(
            f"advertise={advertised} is not the port of listen={listen}, and topics take a port more each, "
            "which others could not know: advertise the same port, or do without topics"
        )


def inner_node(node: NodeConfig, here: Address) -> NodeConfig:
    """Of a node inside the distributor at `here`: on any free port of the same host, and known by that."""
    advertise = None if node.advertise is None else _any_port(node.advertise)
    return replace(
        node,
        listen=_any_port(node.listen),
        advertise=advertise,
        bootstrap=(str(here),),
        identity=None,
    )


def inner_client(node: NodeConfig, here: Address) -> dict[str, Any]:
    """The same, of a light client."""
    inner = inner_node(node, here)
    return {
        "bootstrap": list(inner.bootstrap),
        "listen": inner.listen,
        "advertise": inner.advertise,
        "keys": inner.keys,
        "insecure": inner.insecure,
        "datagram_size": inner.datagram_size,
    }


def _any_port(address: str) -> str:
    return str(Address(Address.parse(address).host, 0))
