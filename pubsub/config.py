"""How a node is set up: its own settings, and those of each layer below it.

Every setting is a field of `NodeConfig`, or of the configuration of one layer, which `NodeConfig` has by the
layer's name. A caller gives them to `Node(...)`; a TOML file and `--set` have the same names (`config_file`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypedDict, get_args

from overlay.channel import ChannelConfig
from overlay.contact import Address, AddressError
from overlay.dht import DhtConfig
from overlay.directory import DirectoryConfig
from overlay.errors import UsageError, check_function
from overlay.failure import FailureConfig
from overlay.identity import Identity
from overlay.membership.config import MembershipConfig
from overlay.membership.modes import MODES, ModeName
from overlay.session import SessionConfig, check_keys
from overlay.topic_name import check_topic_name
from overlay.transport.config import SocketConfig, check_datagram_size
from pubsub.archive.protocol.config import DurableConfig
from pubsub.camcast.parameters import Parameters
from pubsub.data import DATA_LIMIT
from pubsub.rights import Authority, Right
from pubsub.topic import Pattern
from pubsub.validation import Validator

LinkKind = Literal["channel", "datagram"]
DisseminationKind = Literal["eager", "lazy"]
Preset = Literal["local", "lan", "wan"]

_ADDRESS = 'an address such as "127.0.0.1:4000"'
_WANTED: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "listen": (_ADDRESS, (str,)),
    "advertise": (_ADDRESS, (str, NoneType)),
    "gateways": ("lists of addresses by topic", (Mapping,)),
    "discover": ("true or false", (bool,)),
    "insecure": ("true or false", (bool,)),
    "reports": ("true or false", (bool,)),
    "identity": ("an Identity", (Identity, NoneType)),
    "signatures": ("true or false", (bool,)),
    "validators": ("functions by pattern of topics", (Mapping,)),
    "parameters": ("Parameters", (Parameters,)),
    "topic_parameters": ("Parameters by topic", (Mapping,)),
    "revocations": ("the path of a file", (str, os.PathLike, NoneType)),
    "trace": ("the path of a file", (str, os.PathLike, NoneType)),
    "telemetry": ("true or false", (bool,)),
    "datagram_size": ("a whole number of bytes", (int, NoneType)),
    "block_size": ("a whole number of bytes", (int, NoneType)),
    "join_timeout": ("a number of seconds", (int, float)),
    "durability": ("a DurableConfig", (DurableConfig,)),
    "socket": ("a SocketConfig", (SocketConfig, NoneType)),
    "session": ("a SessionConfig", (SessionConfig, NoneType)),
    "channel": ("a ChannelConfig", (ChannelConfig, NoneType)),
    "failure": ("a FailureConfig", (FailureConfig, NoneType)),
    "dht": ("a DhtConfig", (DhtConfig, NoneType)),
    "directory": ("a DirectoryConfig", (DirectoryConfig, NoneType)),
    "membership": ("a MembershipConfig", (MembershipConfig, NoneType)),
}
"""What a setting is, in words and in types."""

LOOPBACK_DATAGRAM = 60_000
USUAL_DATAGRAM = 1_400

LARGEST_MESSAGE = 1024 * 1024 + 48 * 1024
"""Bytes: the data of the largest event, and all that travels around it."""


class ConfigurationError(UsageError):
    """The configuration cannot work; the text names the setting."""


@dataclass(frozen=True)
class Layers:
    """The configuration of each layer below a node."""

    socket: SocketConfig = field(default_factory=SocketConfig)
    """What may wait at the node's socket, and what is dropped there."""

    session: SessionConfig = field(default_factory=SessionConfig)
    """Sessions between the nodes of a network with a key."""

    channel: ChannelConfig = field(
        default_factory=lambda: ChannelConfig(max_message=LARGEST_MESSAGE)
    )
    """Acknowledged channels between two nodes."""

    failure: FailureConfig = field(default_factory=lambda: FailureConfig(interval=5.0))
    """Who is suspected, and when. A silent member is asked every 5 s, so a crash is noticed within about
    8 s: gossip goes around those who have crashed anyway, so asking more often is not worth its cost."""

    dht: DhtConfig = field(default_factory=lambda: DhtConfig(join_attempts=None))
    """Lookups, values and upkeep of the DHT. A node tries to join until `join_timeout`."""

    directory: DirectoryConfig = field(default_factory=DirectoryConfig)
    """Announcements, samples and sizes of topics in the DHT."""

    membership: MembershipConfig = field(default_factory=MembershipConfig)
    """The membership services. Their `c` and `margin` are not taken from here: they are those of the
    community's `Parameters`."""

    @property
    def is_light(self) -> bool:
        """Whether the node is a light member, which says, and is asked, as little as possible."""
        return self.failure.light or not self.dht.serve


PRESETS: Mapping[Preset, Layers] = {
    "local": Layers(
        channel=ChannelConfig(
            max_message=LARGEST_MESSAGE, initial_rto=0.2, min_rto=0.05, ack_delay=0.01
        ),
        failure=FailureConfig(interval=2.0, least_timeout=2.0),
        dht=DhtConfig(join_attempts=None, join_backoff=0.2),
    ),
    "lan": Layers(),
    "wan": Layers(
        channel=ChannelConfig(
            max_message=LARGEST_MESSAGE,
            initial_rto=1.0,
            min_rto=0.2,
            max_rto=10.0,
            close_after=15.0,
        ),
        failure=FailureConfig(interval=10.0, least_timeout=5.0, most_timeout=60.0),
        dht=DhtConfig(join_attempts=None, join_backoff=1.0, lookup_deadline=30.0),
    ),
}
"""Times that suit one machine, a local network (the default), and the internet."""


@dataclass(frozen=True)
class NodeConfig:
    """Everything a node is told before it starts."""

    listen: str = "127.0.0.1:0"
    """`host:port`, a numeric IP; port 0 takes any free port."""

    advertise: str | None = None
    """What others call this node, where that is not `listen`; port 0 is the port that is bound."""

    bootstrap: tuple[str, ...] = ()
    """Addresses of nodes of the network; none for its first node, and none in mode `unstructured`."""

    discover: bool = False
    """Find nodes on the local network by multicast DNS too, and be found (extra `lan`)."""

    mode: ModeName = "structured"
    """Which membership service keeps the topic tables."""

    gateways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic, addresses of members that are always there; for mode `unstructured`, and for `hyparview`
    without a DHT."""

    links: LinkKind = "channel"
    """Events over acknowledged channels, or as plain datagrams that may be lost; the rest over channels."""

    dissemination: DisseminationKind | None = None
    """How events published here spread in their topic's community: "eager" sends each one to floor(ln N + c)
    members from every process, as the paper does; "lazy" sends it once and elsewhere only its id, which
    others use to fetch what does not come. None: lazy over channels, eager over datagrams."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The ring of network keys, 32 bytes each: the first opens sessions, all answer."""

    reports: bool = True
    """Tell nodes of the network that ask, as `camcast dashboard` does, which communities this node is in and
    what it has counted."""

    insecure: bool = False
    """Allow an address other than loopback without a key."""

    identity: Identity | None = None
    """Who this node is; a new identity when there is none."""

    signatures: bool = False
    """Sign events, and drop those that their publisher did not sign; the whole network must agree."""

    authority: tuple[bytes, ...] = ()
    """Public keys, 32 bytes each or as hexadecimal digits: a publisher needs a right that one of them granted
    (see `pubsub.rights`), and `signatures` are on. None: everybody may. The whole network must agree."""

    rights: tuple[bytes, ...] = ()
    """What this node may do in a network with an authority: rights as `camcast right new` prints them, or
    their bytes."""

    revocations: str | Path | None = None
    """A file that keeps the revocations which this node knows, for when it restarts; made if it is missing.
    None: the node asks others as it joins, and honours what was taken back until they have told it."""

    validators: Mapping[str, Validator] = field(default_factory=dict)
    """By pattern of topics: functions that are asked whether events may be delivered and forwarded (see
    `pubsub.validation`). Only a caller of `Node` can give them."""

    parameters: Parameters = field(default_factory=Parameters)
    """The parameters of every community without an entry in `topic_parameters`."""

    topic_parameters: Mapping[str, Parameters] = field(default_factory=dict)

    trace: str | Path | None = None
    """A file for the node's trace, `.jsonl` or `.parquet`; with a star in it, one every few seconds."""

    telemetry: bool = False
    """Make spans of OpenTelemetry where events are published and delivered (`pubsub.telemetry`)."""

    datagram_size: int | None = None
    """Bytes that the path carries in one UDP datagram; None: 60,000 on loopback and 1,400 elsewhere."""

    block_size: int | None = None
    """Bytes at which a block of events that are published in one turn is full, 1 to 1,048,576; a larger event
    is a block of its own. None: what one datagram takes, and over channels at least 49,152."""

    join_timeout: float = 30.0
    """Seconds that joining the network or a community may take."""

    durability: DurableConfig = field(default_factory=DurableConfig)
    """Times and bounds of what this node publishes and subscribes to durably, and of an archive on it."""

    preset: Preset = "lan"
    """The times of the layers below that are not given one by one: of one machine ("local"), of a local
    network ("lan"), or of the internet ("wan")."""

    socket: SocketConfig | None = None
    """What may wait at the socket, and what is dropped. None, here and in the next six: the preset."""

    session: SessionConfig | None = None
    """Sessions of a network with a key."""

    channel: ChannelConfig | None = None
    """Acknowledged channels."""

    failure: FailureConfig | None = None
    """The failure detector."""

    dht: DhtConfig | None = None
    """The DHT. It has no effect in mode `unstructured`."""

    directory: DirectoryConfig | None = None
    """The directory of topics in the DHT. It has no effect in mode `unstructured`."""

    membership: MembershipConfig | None = None
    """The membership services of communities."""

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
        self._set("authority", all_bytes("authority", self.authority))
        self._set("rights", all_bytes("rights", self.rights))
        self._check_rights()
        self._check_mode()
        for pattern, validator in self.validators.items():
            Pattern.of(pattern)
            check_function(f"the validator of {pattern}", validator, ConfigurationError)
        for topic, parameters in self.topic_parameters.items():
            check_topic_name(topic)
            check_type(f"topic_parameters of {topic}", parameters, "Parameters", (Parameters,))
        if self.block_size is not None and not 1 <= self.block_size <= DATA_LIMIT:
            raise ConfigurationError(
                f"block_size must be within 1 and {DATA_LIMIT} bytes, not {self.block_size}"
            )
        check_datagram_size(self.datagram_bytes)
        if not self.join_timeout > 0:
            raise ConfigurationError(
                f"join_timeout must be more than 0 seconds, not {self.join_timeout}"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_choices(self) -> None:
        choices_of = {"mode": ModeName, "links": LinkKind, "preset": Preset}
        for name, allowed in ((name, get_args(kind)) for name, kind in choices_of.items()):
            if getattr(self, name) not in allowed:
                choices = " or ".join(f'"{choice}"' for choice in allowed)
                raise ConfigurationError(f"{name} is {choices}, not {getattr(self, name)!r}")
        if self.dissemination not in (None, *get_args(DisseminationKind)):
            raise ConfigurationError(
                f'dissemination is "eager" or "lazy", not {self.dissemination!r}'
            )

    def _check_rights(self) -> None:
        for name in ("rights", "revocations"):
            if getattr(self, name) and not self.authority:
                raise ConfigurationError(
                    f"{name} need the network's authority: give its public keys"
                )
        if self.authority:
            Authority(self.authority, lambda: 0.0)
            for packed in self.rights:
                Right.unpack(packed)
            self._set("signatures", True)

    def _check_mode(self) -> None:
        contacts = MODES[self.mode].contacts
        if self.gateways and contacts == "dht":
            raise ConfigurationError(
                f'gateways are for modes without a DHT; in mode "{self.mode}" the DHT finds contacts'
            )
        if self.bootstrap and contacts == "gateways":
            raise ConfigurationError(
                f'mode "{self.mode}" has no DHT to bootstrap: name gateways of the topics instead'
            )
        if self.discover and not self.uses_dht:
            raise ConfigurationError(
                "discover finds nodes of a network with a DHT: name gateways of the topics instead"
            )
        if self.bootstrap and self.gateways:
            raise ConfigurationError(
                "bootstrap and gateways are two ways to find contacts: name one of them"
            )

    @property
    def uses_dht(self) -> bool:
        """Whether contacts come from the DHT; else they come from the gateways."""
        return MODES[self.mode].uses_dht(bool(self.gateways))

    @property
    def layers(self) -> Layers:
        """The configuration of every layer below: what was given, and the preset's where nothing was."""
        preset = PRESETS[self.preset]
        return Layers(
            socket=self.socket or preset.socket,
            session=self.session or preset.session,
            channel=self.channel or preset.channel,
            failure=self.failure or preset.failure,
            dht=self.dht or preset.dht,
            directory=self.directory or preset.directory,
            membership=self.membership or preset.membership,
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


class NodeSettings(TypedDict, total=False):
    """The fields of `NodeConfig` as keyword arguments; `Node`, `Archive` and `Distributor` take them."""

    listen: str
    advertise: str | None
    bootstrap: Iterable[str]
    discover: bool
    mode: ModeName
    gateways: Mapping[str, Iterable[str]]
    links: LinkKind
    dissemination: DisseminationKind | None
    keys: Iterable[bytes]
    reports: bool
    insecure: bool
    identity: Identity | None
    signatures: bool
    authority: Iterable[bytes | str]
    rights: Iterable[bytes | str]
    revocations: str | Path | None
    validators: Mapping[str, Validator]
    parameters: Parameters
    topic_parameters: Mapping[str, Parameters]
    trace: str | Path | None
    telemetry: bool
    datagram_size: int | None
    block_size: int | None
    join_timeout: float
    durability: DurableConfig
    preset: Preset
    socket: SocketConfig | None
    session: SessionConfig | None
    channel: ChannelConfig | None
    failure: FailureConfig | None
    dht: DhtConfig | None
    directory: DirectoryConfig | None
    membership: MembershipConfig | None


def config_of(settings: NodeSettings) -> NodeConfig:
    """The configuration with these settings; `ConfigurationError` for one that is unknown or cannot work."""
    known = [f.name for f in fields(NodeConfig)]
    for name in settings:
        if name not in known:
            raise ConfigurationError(unknown_setting(name, known))
    return NodeConfig(**settings)  # type: ignore[arg-type]  # it checks and converts what it is given


def unknown_setting(name: str, known: Iterable[str], where: str = "") -> str:
    """The text of an error about a setting that is not known, with the nearest one that is."""
    names = sorted(known)
    near = get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return f"{where}there is no setting {name!r}; {hint}"


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


def all_bytes(name: str, values: Any) -> tuple[bytes, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} must be a list, not {type(values).__name__}")
    found = []
    for value in values:
        try:
            found.append(bytes.fromhex(value.strip()) if isinstance(value, str) else bytes(value))
        except (ValueError, TypeError):
            raise ConfigurationError(f"{name}: {value!r} is not hexadecimal digits") from None
    return tuple(found)


def _keys(keys: Any) -> tuple[bytes, ...]:
    # What was given is not repeated: it may be secret.
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        kind = type(keys).__name__
        raise ConfigurationError(f"keys must be a list of network keys, 32 bytes each, not {kind}")
    return check_keys(tuple(keys))
