"""The sender's window: what was sent and may have to be sent again.

A sender numbers its items from 1 and keeps each until it is *released* (nobody will ask for it any more).
In between, the receiver *confirms* how far it has them. At most `most` items, and about `most_bytes`, are on
their way at a time. A receiver that does not answer, or another one that takes its place, is sent everything
after what it has confirmed once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Window(Generic[T]):
    """Items in order; `released <= confirmed <= sent <= last` always holds."""

    def __init__(self, most: int, most_bytes: int, size: Callable[[T], int]) -> None:
        """`most` items and `most_bytes` (at least one item) are sent and not confirmed at a time. `size`:
        bytes of an item."""
        self.last = 0
        """The number of the newest item."""
        self.sent = 0
        """Up to here everything was sent to the present receiver."""
        self.confirmed = 0
        """Up to here the present receiver has everything."""
        self.released = 0
        """Up to here nothing is kept."""
        self.bytes = 0
        """Bytes of the items that are kept."""
        self._size = size
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[int, T] = {}

    def __len__(self) -> int:
        """How many items are kept."""
        return len(self._kept)

    def __getitem__(self, number: int) -> T:
        """An item that is kept."""
        return self._kept[number]

    def begin(self, after: int) -> None:
        """Number the first item behind this number; to be called before anything is added."""
        self.last = self.sent = self.confirmed = self.released = after

    def add(self, item: T) -> int:
        """Number an item and keep it; its number."""
        self.last += 1
        self._kept[self.last] = item
        self.bytes += self._size(item)
        return self.last

    def next_batch(self, most: int, most_bytes: int) -> list[T]:
        """The next items to be sent, within the window; they count as sent. None when nothing may be sent.

        `most` items, and `most_bytes` unless one item alone is larger."""
        batch: list[T] = []
        size = 0
        room = self._most - (self.sent - self.confirmed)
        in_flight = self._bytes_in_flight() if self._most_bytes < self.bytes else 0
        while self.sent < self.last and len(batch) < min(most, room):
            item = self._kept[self.sent + 1]
            size += self._size(item)
            if batch and size > most_bytes:
                break
            if in_flight + size > self._most_bytes and self.sent > self.confirmed:
                break
            self.sent += 1
            batch.append(item)
        return batch

    def _bytes_in_flight(self) -> int:
        return sum(self._size(self._kept[one]) for one in range(self.confirmed + 1, self.sent + 1))

    def confirm(self, number: int) -> bool:
        """The receiver has everything up to this number; whether that is news."""
        number = min(number, self.last)
        if number <= self.confirmed:
            return False
        self.confirmed = number
        self.sent = max(self.sent, number)
        return True

    def release(self, number: int) -> bool:
        """Nobody will need the items up to this number, as far as they are confirmed; whether any went."""
        number = min(number, self.confirmed)
        if number <= self.released:
            return False
        for one in range(self.released + 1, number + 1):
            self.bytes -= self._size(self._kept.pop(one))
        self.released = number
        return True

    def send_again(self) -> None:
        """Send everything again that is not confirmed."""
        self.sent = self.confirmed

    def start_over(self) -> None:
        """Another receiver, which has what was released and perhaps nothing else."""
        self.sent = self.confirmed = self.released
