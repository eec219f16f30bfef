"""A node's configuration in a TOML file, whose keys have the names of the command line's options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from overlay.identity import Identity
from overlay.seal import parse_key
from pubsub.camcast.parameters import ParameterError, Parameters
from pubsub.config import ConfigurationError, NodeConfig


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
        values["keys"] = read_keys(_path("key_file", values.pop("key_file")))
    if "identity" in values:
        values["identity"] = Identity.load_or_create(_path("identity", values["identity"]))
    if "trace" in values:
        _path("trace", values["trace"])
    common = _table("parameters", values.pop("parameters", {}))
    values["parameters"] = _parameters("parameters", common)
    values["topic_parameters"] = {
        topic: _parameters(f"topics.{topic}", {**common, **_table(f"topics.{topic}", own)})
        for topic, own in _table("topics", values.pop("topics", {})).items()
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


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigurationError(f"{name} must be the path of a file, not {value!r}")
    return value


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a table, not {value!r}")
    return value


def _parameters(where: str, values: Mapping[str, Any]) -> Parameters:
    unknown = sorted(values.keys() - {f.name for f in fields(Parameters)})
    if unknown:
        raise ConfigurationError(f"{where}: there is no parameter {unknown[0]!r}")
    try:
        return Parameters(**values)
    except ParameterError as error:
        raise ConfigurationError(f"{where}: {error}") from None
