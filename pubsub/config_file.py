"""A node's configuration in a TOML file and in `--set NAME=VALUE`, by the same names.

A setting of a layer stands in the layer's table: `[dht] verify_ids = true` in a file is
`--set dht.verify_ids=true` on the command line, and `Node(dht=DhtConfig(verify_ids=True))` in a program.
What a table leaves out is as the preset says.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from overlay.errors import UsageError, why
from overlay.identity import Identity
from overlay.session import parse_key
from pubsub.archive.protocol.config import DurableConfig
from pubsub.camcast.parameters import Parameters
from pubsub.config import (
    PRESETS,
    ConfigurationError,
    Layers,
    NodeConfig,
    check_type,
    unknown_setting,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

SETTINGS = frozenset(
    {f.name for f in fields(NodeConfig)} - {"keys", "topic_parameters"}
    | {"key_file", "topics", "gateway"}
)
"""What a file may say of a node."""


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file, by name; `key-file` and `key_file` are the same one.

    Those of a node: the fields of `NodeConfig`, where `key_file` and `identity` name files. Tables:
    `[gateways]` with lists of addresses by topic, `[parameters]` for all communities and `[topics."/soccer"]`
    for one; `[durability]`, `[channel]`, `[failure]`, `[dht]`, `[directory]` and `[membership]` with the
    fields of the configuration class of that name.
    """
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {why(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    names = [name.replace("-", "_") for name in settings]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{path} sets {name} twice")
    return dict(zip(names, settings.values(), strict=True))


def check_names(settings: Iterable[str], known: Collection[str]) -> None:
    """Raise `ConfigurationError` for a setting that is not known."""
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ConfigurationError(unknown_setting(unknown[0], known))


def with_assignments(settings: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """The settings, and over them those of `--set NAME=VALUE`; a value that is not TOML is taken as text.

    A name inside a table has dots: `dht.verify_ids=true`, `topics."/soccer".c=7`."""
    result = dict(settings)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set {assignment!r}: write NAME=VALUE, as in dht.k=16")
        try:
            parsed = tomllib.loads(assignment)
        except tomllib.TOMLDecodeError:
            try:
                parsed = tomllib.loads(f"{name} = {json.dumps(value.strip())}")
            except tomllib.TOMLDecodeError:
                raise ConfigurationError(
                    f"--set {assignment!r}: {name.strip()!r} is not a name such as dht.k"
                ) from None
        result = _merged(result, {key.replace("-", "_"): v for key, v in parsed.items()})
    return result


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged


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
    for name in ("revocations", "trace"):
        if name in values:
            _path(name, values[name])
    common = _changed(Parameters(), "parameters", values.pop("parameters", {}))
    values["parameters"] = common
    values["topic_parameters"] = {
        topic: _changed(common, f"topics.{topic}", own)
        for topic, own in _table("topics", values.pop("topics", {})).items()
    }
    if "durability" in values:
        values["durability"] = _changed(DurableConfig(), "durability", values["durability"])
    usual = PRESETS.get(values.get("preset", "lan"), Layers())
    for layer in fields(Layers):
        if layer.name in values:
            below = getattr(usual, layer.name)
            values[layer.name] = _changed(below, layer.name, values[layer.name])
    return NodeConfig(**values)


def read_keys(path: str | Path) -> tuple[bytes, ...]:
    """The ring of network keys in a file, one a line in hexadecimal, the first the one that seals."""
    try:
        lines = Path(path).read_text(encoding="ascii").split()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {why(error)}") from None
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


def _changed(usual: T, where: str, given: Any) -> T:
    """A configuration with what the table `given` says, and as `usual` for the rest; it checks itself."""
    values = dict(_table(where, given))
    known = {f.name: getattr(usual, f.name) for f in fields(usual)}
    for name, value in values.items():
        if name not in known:
            raise ConfigurationError(unknown_setting(name, known, f"{where}: "))
        below = known[name]
        if is_dataclass(below) and not isinstance(below, type):
            values[name] = _changed(below, f"{where}.{name}", value)
        else:
            values[name] = _value(f"{where}: {name}", value, below)
    try:
        return replace(usual, **values)
    except UsageError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _value(name: str, value: Any, usual: Any) -> Any:
    """The value, where its type is the usual one's; None is usual where a path or a number may stand."""
    if isinstance(usual, bool):
        check_type(name, value, "true or false", (bool,))
    elif isinstance(usual, int):
        check_type(name, value, "a whole number", (int,))
    elif isinstance(usual, float):
        check_type(name, value, "a number", (int, float))
    elif name.endswith("_file"):
        return Path(_path(name, value))
    return value
