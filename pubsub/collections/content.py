"""The local content of a collection: the latest elements that came to this node.

It holds `keep` elements; when one more comes, the one that has been there longest leaves. A set takes no
element that is equal to one of the last `MOST_REMEMBERED` that came; a bag takes every one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pubsub.collections.element import digest

MOST_REMEMBERED = 65_536
"""Elements by which a set knows that one came before."""


class Content:
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
        self._known[key] = None
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return True

    def forget(self, topic: str, data: Any) -> None:
        """It was not delivered after all."""
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
