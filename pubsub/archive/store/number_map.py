"""Maps from numbers to numbers, 16 bytes an entry, for keys that mostly come in order."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class NumberMap:
    """A sorted map of unsigned 64-bit numbers. Adding at the end is cheap; elsewhere the rest is moved."""

    __slots__ = ("_keys", "_values")

    def __init__(self) -> None:
        self._keys = array("Q")
        self._values = array("Q")

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, key: int, value: int) -> None:
        keys = self._keys
        if not keys or key > keys[-1]:
            keys.append(key)
            self._values.append(value)
            return
        place = bisect_left(keys, key)
        if keys[place] == key:
            self._values[place] = value
        else:
            keys.insert(place, key)
            self._values.insert(place, value)

    def get(self, key: int) -> int | None:
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            return self._values[place]
        return None

    def items(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The entries whose keys are from `first` to `last`, in order."""
        start, stop = bisect_left(self._keys, first), bisect_right(self._keys, last)
        return ((self._keys[place], self._values[place]) for place in range(start, stop))

    def first_with_value_above(self, value: int) -> tuple[int, int] | None:
        """The first entry whose value is above this one, where values grow with their keys."""
        place = bisect_right(self._values, value)
        return (self._keys[place], self._values[place]) if place < len(self._keys) else None

    def remove_first(self, count: int) -> None:
        del self._keys[:count], self._values[:count]

    def remove(self, key: int) -> None:
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            del self._keys[place], self._values[place]

    def first(self) -> tuple[int, int] | None:
        """The entry with the lowest key."""
        return (self._keys[0], self._values[0]) if self._keys else None
