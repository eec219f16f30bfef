"""A node's configuration in a TOML file, whose keys have the names of the command line's options."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.seal import parse_key
from pubsub.archive.protocol.config import DurableConfig
from pubsub.camcast.parameters import Parameters
from pubsub.config import ConfigurationError, NodeConfig, check_type

T = TypeVar("T", Parameters, DurableConfig)

SETTINGS = frozenset(
    {f.name for f in fields(NodeConfig)} - {"keys", "topic_parameters"}
    | {"key_file", "topics", "gateway"}
)
"""What a file may say of a node."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file, by name; `key-file` and `key_file` are the same one.

    Those of a node: the fields of `NodeConfig`, where `key_file` and `identity` name files. Tables:
    `[gateways]` with lists of addresses by topic, `[parameters]` for all communities and `[topics."/soccer"]`
    for one, `[durability]` with the fields of `DurableConfig`.
    """
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from None
    names = [name.replace("-", "_") for name in settings]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{path} sets {name} twice")
    return dict(zip(names, settings.values(), strict=True))


def check_names(settings: Iterable[str], known: Collection[str]) -> None:
    """Raise `ConfigurationError` for a setting that is not known."""
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ConfigurationError(
            f"there is no setting {unknown[0]!r}; known: {', '.join(sorted(known))}"
        )


def config_from(settings: Mapping[str, Any]) -> NodeConfig:
    """A node's configuration from settings as a file or the command line has them."""
    check_names(settings, SETTINGS)
    values = dict(settings)
    if "gateway" in values:
        if "gateways" in values:
            raise ConfigurationError("gateway and gateways are two ways to say the same: keep one")
        values["gateways"] = _gateways(values.pop("gateway"))
    if "key_file" in values:
        values["keys"] = read_keys(_path("key_file", values.pop("key_file")))
    if "identity" in values:
        values["identity"] = Identity.load_or_create(_path("identity", values["identity"]))
    if "trace" in values:
        _path("trace", values["trace"])
    common = _table("parameters", values.pop("parameters", {}))
    values["parameters"] = _made(Parameters, "parameters", common)
    values["topic_parameters"] = {
        topic: _made(Parameters, f"topics.{topic}", {**common, **_table(f"topics.{topic}", own)})
        for topic, own in _table("topics", values.pop("topics", {})).items()
    }
    if "durability" in values:
        bounds = _table("durability", values["durability"])
        values["durability"] = _made(DurableConfig, "durability", bounds)
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


def _gateways(pairs: Any) -> dict[str, list[str]]:
    """`/soccer=127.0.0.1:4000` as a topic and the address of one of its gateways."""
    check_type("gateway", pairs, "a list of TOPIC=ADDRESS", (list,))
    gateways: dict[str, list[str]] = {}
    for pair in pairs:
        topic, equals, address = str(pair).rpartition("=")
        if not equals:
            raise ConfigurationError(
                f"gateway {pair!r}: write TOPIC=ADDRESS, as in /soccer=127.0.0.1:4000"
            )
        gateways.setdefault(topic, []).append(address)
    return gateways


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError(f"{name} must be the path of a file, not {value!r}")
    return value


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a table, not {value!r}")
    return value


def _made(kind: type[T], where: str, values: Mapping[str, Any]) -> T:
    """The parameters of a table as an object that checks itself."""
    unknown = sorted(values.keys() - {f.name for f in fields(kind)})
    if unknown:
        raise ConfigurationError(f"{where}: there is no parameter {unknown[0]!r}")
    try:
        return kind(**values)
    except UsageError as error:
        raise ConfigurationError(f"{where}: {error}") from None
