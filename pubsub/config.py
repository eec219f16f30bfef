"""How a node is set up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from overlay.contact import Address, AddressError
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.seal import check_keys
from overlay.topic_name import check_topic_name
from pubsub.archive.protocol.config import DurableConfig
from pubsub.camcast.parameters import Parameters

Mode = Literal["unstructured", "semi-structured", "structured"]
LinkKind = Literal["channel", "datagram"]
DisseminationKind = Literal["eager", "lazy"]


_ADDRESS = 'an address such as "127.0.0.1:4000"'
_WANTED: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "listen": (_ADDRESS, (str,)),
    "advertise": (_ADDRESS, (str, NoneType)),
    "gateways": ("lists of addresses by topic", (Mapping,)),
    "insecure": ("true or false", (bool,)),
    "identity": ("an Identity", (Identity, NoneType)),
    "signatures": ("true or false", (bool,)),
    "parameters": ("Parameters", (Parameters,)),
    "topic_parameters": ("Parameters by topic", (Mapping,)),
    "trace": ("the path of a file", (str, os.PathLike, NoneType)),
    "datagram_size": ("a whole number of bytes", (int, NoneType)),
    "join_timeout": ("a number of seconds", (int, float)),
    "durability": ("a DurableConfig", (DurableConfig,)),
}
"""What a setting is, in words and in types."""

LOOPBACK_DATAGRAM = 16_384
USUAL_DATAGRAM = 1_400


class ConfigurationError(UsageError):
    """The configuration cannot work; the text names the setting."""


@dataclass(frozen=True)
class NodeConfig:
    """Everything a node is told before it starts."""

    listen: str = "127.0.0.1:0"
    """`host:port`, a numeric IP; port 0 takes any free port."""

    advertise: str | None = None
    """What others call this node, where that is not `listen`; port 0 is the port that is bound."""

    bootstrap: tuple[str, ...] = ()
    """Addresses of nodes of the network; none for its first node, and none in mode `unstructured`."""

    mode: Mode = "structured"
    """Which membership service keeps the topic tables."""

    gateways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic, addresses of members that are always there; needed with `unstructured` only."""

    links: LinkKind = "channel"
    """Events over acknowledged channels, or as plain datagrams that may be lost; the rest over channels."""

    dissemination: DisseminationKind | None = None
    """How events published here spread in their topic's community: "eager" sends each one to floor(ln N + c)
    members from every process, as the paper does; "lazy" sends it once and elsewhere only its id, which
    others use to fetch what does not come. None: lazy over channels, eager over datagrams."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The ring of network keys, 32 bytes each: the first seals, all open."""

    insecure: bool = False
    """Allow an address other than loopback without a key."""

    identity: Identity | None = None
    """Who this node is; a new identity when there is none."""

    signatures: bool = False
    """Sign events, and drop those that their publisher did not sign; the whole network must agree."""

    parameters: Parameters = field(default_factory=Parameters)
    """Of every community without an entry in `topic_parameters`."""

    topic_parameters: Mapping[str, Parameters] = field(default_factory=dict)

    trace: str | Path | None = None
    """A file for the node's trace, `.jsonl` or `.parquet`."""

    datagram_size: int | None = None
    """Bytes that the path carries in one UDP datagram; None: 16,384 on loopback and 1,400 elsewhere."""

    join_timeout: float = 30.0
    """Seconds that joining the network or a community may take."""

    durability: DurableConfig = field(default_factory=DurableConfig)
    """Times and bounds of what this node publishes and subscribes to durably, and of an archive on it."""

    def __post_init__(self) -> None:
        for name, (wanted, types) in _WANTED.items():
            check_type(name, getattr(self, name), wanted, types)
        self._check_choices()
        for name in ("listen", "advertise"):
            if getattr(self, name) is not None:
                _address(name, getattr(self, name))
        self._set("bootstrap", _addresses("bootstrap", self.bootstrap))
        gateways = {
            check_topic_name(topic): _addresses(f"gateways of {topic}", addresses)
            for topic, addresses in self.gateways.items()
        }
        self._set("gateways", gateways)
        self._set("keys", _keys(self.keys))
        self._check_mode()
        for topic, parameters in self.topic_parameters.items():
            check_topic_name(topic)
            check_type(f"topic_parameters of {topic}", parameters, "Parameters", (Parameters,))
        if not self.join_timeout > 0:
            raise ConfigurationError(
                f"join_timeout must be more than 0 seconds, not {self.join_timeout}"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_choices(self) -> None:
        for name, allowed in (("mode", get_args(Mode)), ("links", get_args(LinkKind))):
            if getattr(self, name) not in allowed:
                choices = " or ".join(f'"{choice}"' for choice in allowed)
                raise ConfigurationError(f"{name} is {choices}, not {getattr(self, name)!r}")
        if self.dissemination not in (None, *get_args(DisseminationKind)):
            raise ConfigurationError(
                f'dissemination is "eager" or "lazy", not {self.dissemination!r}'
            )

    def _check_mode(self) -> None:
        if self.gateways and self.mode != "unstructured":
            raise ConfigurationError(
                f'gateways are for mode "unstructured"; in mode "{self.mode}" the DHT finds contacts'
            )
        if self.bootstrap and self.mode == "unstructured":
            raise ConfigurationError(
                'mode "unstructured" has no DHT to bootstrap: name gateways of the topics instead'
            )

    @property
    def datagram_bytes(self) -> int:
        if self.datagram_size is not None:
            return self.datagram_size
        return LOOPBACK_DATAGRAM if Address.parse(self.listen).is_loopback else USUAL_DATAGRAM

    @property
    def is_eager(self) -> bool:
        """Whether events spread eagerly unless they say otherwise."""
        return (self.dissemination or ("lazy" if self.links == "channel" else "eager")) == "eager"

    def parameters_of(self, topic: str) -> Parameters:
        return self.topic_parameters.get(topic, self.parameters)


def check_type(name: str, value: Any, wanted: str, types: tuple[type, ...]) -> None:
    """Raise `ConfigurationError` unless the setting has one of the types."""
    # True is an int to Python, and never a number that somebody meant.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ConfigurationError(f"{name} must be {wanted}, not {value!r}")


def _addresses(name: str, addresses: Any) -> tuple[str, ...]:
    if isinstance(addresses, str):
        raise ConfigurationError(f"{name} is a list of addresses, not one: write [{addresses!r}]")
    if not isinstance(addresses, Iterable) or isinstance(addresses, bytes | Mapping):
        raise ConfigurationError(f"{name} must be a list of addresses, not {addresses!r}")
    return tuple(str(_address(name, address)) for address in addresses)


def _address(name: str, address: Any) -> Address:
    check_type(name, address, _ADDRESS, (str,))
    try:
        return Address.parse(address)
    except AddressError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _keys(keys: Any) -> tuple[bytes, ...]:
    # What was given is not repeated: it may be secret.
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        kind = type(keys).__name__
        raise ConfigurationError(f"keys must be a list of network keys, 32 bytes each, not {kind}")
    return check_keys(tuple(keys))
