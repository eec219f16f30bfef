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


class Share:
    """The bytes that one of several holders of a `Budget` has."""

    __slots__ = ("_budget", "bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.bytes = 0
        budget.shares += 1

    def add(self, size: int) -> None:
        self.bytes += size
        self._budget.bytes += size

    @property
    def is_too_much(self) -> bool:
        """Whether all have too much, and this one more than an equal share."""
        budget = self._budget
        return budget.bytes > budget.most and self.bytes * budget.shares > budget.most

    def end(self) -> None:
        self.add(-self.bytes)
        self._budget.shares -= 1


class Budget:
    """Bytes that several may hold together; less than twice as many, since each looks when it takes more."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = self.shares = 0
