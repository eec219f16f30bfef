"""How a node is set up. The command line's options and the configuration file's keys have the same names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.seal import parse_key
from overlay.topic_name import check_topic_name
from pubsub.camcast.parameters import Parameters

Mode = Literal["unstructured", "semi-structured", "structured"]
LinkKind = Literal["channel", "datagram"]
DisseminationKind = Literal["eager", "lazy"]


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
    """What others call this node, where that is not `listen`."""

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

    def __post_init__(self) -> None:
        for name, allowed in (("mode", get_args(Mode)), ("links", get_args(LinkKind))):
            if getattr(self, name) not in allowed:
                choices = " or ".join(f'"{choice}"' for choice in allowed)
                raise ConfigurationError(f"{name} is {choices}, not {getattr(self, name)!r}")
        if self.dissemination not in (None, *get_args(DisseminationKind)):
            raise ConfigurationError(
                f'dissemination is "eager" or "lazy", not {self.dissemination!r}'
            )
        object.__setattr__(self, "bootstrap", _addresses("bootstrap", self.bootstrap))
        gateways = {
            check_topic_name(topic): _addresses(f"gateways of {topic}", addresses)
            for topic, addresses in self.gateways.items()
        }
        object.__setattr__(self, "gateways", gateways)
        if gateways and self.mode != "unstructured":
            raise ConfigurationError(
                f'gateways are for mode "unstructured"; in mode "{self.mode}" the DHT finds contacts'
            )
        if self.bootstrap and self.mode == "unstructured":
            raise ConfigurationError(
                'mode "unstructured" has no DHT to bootstrap: name gateways of the topics instead'
            )
        for topic in self.topic_parameters:
            check_topic_name(topic)
        if not self.join_timeout > 0:
            raise ConfigurationError(
                f"join_timeout must be more than 0 seconds, not {self.join_timeout}"
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


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file, ready for `NodeConfig`; `key_file` and `identity` name files.

    Tables: `[gateways]` with lists of addresses by topic, `[parameters]` for all communities and
    `[topics."/soccer"]` for one.
    """
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from None
    return settings


def config_from(settings: Mapping[str, Any]) -> NodeConfig:
    """A node's configuration from settings as a file or the command line has them."""
    known = {f.name for f in fields(NodeConfig)} - {"keys", "topic_parameters"}
    known |= {"key_file", "topics"}
    values = dict(settings)
    unknown = sorted(values.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"there is no setting {unknown[0]!r}; known: {', '.join(sorted(known))}"
        )
    if "key_file" in values:
        values["keys"] = read_keys(values.pop("key_file"))
    if "identity" in values:
        values["identity"] = Identity.load_or_create(values["identity"])
    values["parameters"] = _parameters("parameters", values.pop("parameters", {}), {})
    values["topic_parameters"] = {
        topic: _parameters(f"topics.{topic}", own, settings.get("parameters", {}))
        for topic, own in values.pop("topics", {}).items()
    }
    return NodeConfig(**values)


def read_keys(path: str | Path) -> tuple[bytes, ...]:
    """The ring of network keys in a file, one a line in hexadecimal, the first the one that seals."""
    try:
        lines = Path(path).read_text(encoding="ascii").split()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} holds no network keys") from None
    if not lines:
        raise ConfigurationError(f"{path} holds no network key: `camcast key new` prints one")
    return tuple(parse_key(line) for line in lines)


def _parameters(where: str, own: Any, common: Mapping[str, Any]) -> Parameters:
    try:
        return Parameters(**{**common, **own})
    except TypeError:
        known = {f.name for f in fields(Parameters)}
        wrong = sorted(set(own) - known) if isinstance(own, Mapping) else [own]
        raise ConfigurationError(f"{where}: there is no parameter {wrong[0]!r}") from None


def _addresses(name: str, addresses: Sequence[str]) -> tuple[str, ...]:
    if isinstance(addresses, str):
        raise ConfigurationError(f"{name} is a list of addresses, not one: write [{addresses!r}]")
    return tuple(str(Address.parse(address)) for address in addresses)
