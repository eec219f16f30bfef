"""Cut what is to be sent into messages of bounded size, by bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(
    items: Iterable[T], size_of: Callable[[T], int], most_bytes: int, most: int | None = None
) -> Iterator[list[T]]:
    """The items in order, in lists of at most `most_bytes` bytes and `most` items.

    Each list has at least one item: an item that is larger than `most_bytes` is alone in its list."""
    batch: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        if batch and (size + more > most_bytes or len(batch) == most):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch
