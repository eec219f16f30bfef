"""An element of a collection, and what makes two of them equal."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgpack

from overlay.contact import PeerId


@dataclass(frozen=True, slots=True)
class Element:
    """An element as it is notified."""

    data: Any
    """None, bool, int, float, str, bytes, list or dict, as it was added."""
    topic: str
    """The collection that it was added to: the topic subscribed to, or a subtopic."""
    publisher: PeerId
    """Who added it."""


def digest(data: Any) -> bytes:
    """Equal for equal data, whatever the order of the entries in its maps; tuples count as lists."""
    packed = msgpack.packb(_in_order(data), use_bin_type=True)
    return blake2b(packed, digest_size=16).digest()


def _in_order(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_in_order(item) for item in data]
    if isinstance(data, dict):
        entries = [(msgpack.packb(key), key, _in_order(item)) for key, item in data.items()]
        return {key: item for _, key, item in sorted(entries, key=lambda entry: entry[0])}
    return data
