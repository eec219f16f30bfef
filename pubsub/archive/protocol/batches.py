"""Cut what is to be sent into messages of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pubsub.archive.protocol.config import DurableConfig

T = TypeVar("T")


def batches(
    items: Iterable[T], size_of: Callable[[T], int], config: DurableConfig
) -> Iterator[list[T]]:
    """The items in order, in lists within `batch` and `batch_bytes`, each of at least one item."""
    batch: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        if batch and (len(batch) >= config.batch or size + more > config.batch_bytes):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch
