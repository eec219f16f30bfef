"""Data of events as text: a line for people, JSON for programs.

Events come from strangers: whatever data msgpack carries can be written, and is one line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain_line(topic: str, data: Any) -> str:
    """The data of a topic for people to read."""
    text = data if isinstance(data, str) else json.dumps(as_json_data(data), ensure_ascii=False)
    return visible(f"{topic}  {text}")


def visible(text: str) -> str:
    """The text as one line that does nothing to a terminal: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def json_line(fields: Mapping[str, Any]) -> str:
    """The fields as one line of ASCII, which any pipe carries."""
    return json.dumps(as_json_data(fields), allow_nan=False)


def as_json_data(value: Any) -> Any:
    """The value with what JSON lacks as text: bytes in hexadecimal, `NaN` and `Infinity` by their names.

    Keys become text likewise. A map in which two keys would then be the same is given as a list of pairs.
    """
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [as_json_data(item) for item in value]
    if isinstance(value, Mapping):
        made = {_key(key): as_json_data(item) for key, item in value.items()}
        return made if len(made) == len(value) else as_json_data(list(value.items()))
    return value


def _key(key: Any) -> str:
    return key.hex() if isinstance(key, bytes) else str(key)
