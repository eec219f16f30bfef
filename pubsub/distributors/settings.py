"""The settings of the nodes and clients inside a distributor.

A service that is fed by a topic has a node of its own, on another port of the same host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from overlay.contact import Address
from pubsub.config import ConfigurationError, NodeConfig


def check_port_is_free_to_choose(node: NodeConfig) -> None:
    """Raise `ConfigurationError` where others could not reach the nodes inside a distributor."""
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
    }


def _any_port(address: str) -> str:
    return str(Address(Address.parse(address).host, 0))
