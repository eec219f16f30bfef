"""Memories that do not grow for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """`memo[key]` is what `make(key)` gave when it was first asked for; beyond `most` keys all are forgotten.

    For what is asked for with every datagram: an `lru_cache` also notes when, which takes twice as long."""

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


def remember(memory: dict[K, V], key: K, value: V, most: int) -> None:
    """Put a pair last, and forget the pair that has been there longest once there are more than `most`."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > most:
        del memory[next(iter(memory))]
