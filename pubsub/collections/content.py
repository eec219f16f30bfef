"""An element of a collection, what makes two of them equal, and the local content: the latest elements that
came to this node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgpack

from overlay.bounded import remember
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


MOST_REMEMBERED = 65_536
"""Elements by which a set knows that one came before."""


class LocalContent:
    """Holds `keep` elements; when one more comes, the one that has been there longest leaves. A set takes no
    element that is equal to one of the last `MOST_REMEMBERED` that came; a bag takes every one.
    """

    def __init__(self, keep: int, unique: bool) -> None:
        self._keep = keep
        self._unique = unique
        self._elements: dict[int, tuple[bytes, Any]] = {}
        """In the order in which they came."""
        self._number = 0
        self._times: dict[bytes, int] = {}
        """How often each digest is among the elements."""
        self._known: dict[tuple[str, bytes], None] = {}

    def is_new(self, topic: str, data: Any) -> bool:
        """Whether it may be delivered; always for a bag, once for a set. It is known from now on."""
        if not self._unique:
            return True
        key = (topic, digest(data))
        if key in self._known:
            return False
        remember(self._known, key, None, MOST_REMEMBERED)
        return True

    def forget(self, topic: str, data: Any) -> None:
        """Forget an element that was not delivered after all."""
        if self._unique:
            self._known.pop((topic, digest(data)), None)

    def add(self, data: Any) -> None:
        if not self._keep:
            return
        key = digest(data)
        self._number += 1
        self._elements[self._number] = (key, data)
        self._times[key] = self._times.get(key, 0) + 1
        if len(self._elements) > self._keep:
            self._leave(next(iter(self._elements)))

    def get(self, default: Any = None) -> Any:
        """Take out the element that has been there longest."""
        if not self._elements:
            return default
        return self._leave(next(iter(self._elements)))

    def remove(self, data: Any) -> bool:
        """Take out an element that is equal to this data, the one that has been there longest; whether there
        was one."""
        if data not in self:
            return False
        key = digest(data)
        self._leave(next(number for number, (one, _) in self._elements.items() if one == key))
        return True

    def clear(self) -> None:
        """Hold nothing, and know nothing of what came before."""
        self._elements.clear()
        self._times.clear()
        self._known.clear()

    def _leave(self, number: int) -> Any:
        key, data = self._elements.pop(number)
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
        return data

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Any]:
        return iter([data for _, data in self._elements.values()])

    def __contains__(self, data: Any) -> bool:
        try:
            return digest(data) in self._times
        except (TypeError, ValueError, OverflowError):
            return False  # nothing that could have been added
