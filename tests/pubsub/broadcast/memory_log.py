"""A member's log in memory, which keeps what it was told when its process crashes."""

from __future__ import annotations

from pubsub.broadcast.log import RestoredMember, StableLog, StoredMessage, Then


class MemoryStableLog(StableLog):
    is_durable = True

    def __init__(self) -> None:
        self._messages: dict[tuple[int, int], StoredMessage] = {}
        self._delivered: dict[tuple[int, int], None] = {}
        self._taken: dict[tuple[int, int], None] = {}
        self._dropped: dict[tuple[int, int], None] = {}
        self._marks: dict[int, int] = {}

    def restore(self) -> RestoredMember:
        return RestoredMember(
            copies=tuple(
                m for key, m in sorted(self._messages.items()) if key not in self._dropped
            ),
            untaken=tuple(self._messages[k] for k in self._untaken()),
            marks=dict(self._marks),
            above=tuple(key for key in self._delivered if key[1] > self._marks.get(key[0], 0)),
        )

    def _untaken(self) -> list[tuple[int, int]]:
        return [k for k in self._delivered if k not in self._taken and k in self._messages]

    def held(self, stored: StoredMessage, then: Then) -> None:
        self._messages.setdefault((stored.origin, stored.number), stored)
        then()

    def delivered(self, origin: int, number: int, mark: int, then: Then) -> None:
        self._delivered[origin, number] = None
        self._marks[origin] = mark
        self._sweep()
        then()

    def taken(self, origin: int, number: int) -> None:
        self._taken[origin, number] = None
        self._sweep()

    def dropped(self, origin: int, number: int) -> None:
        self._dropped[origin, number] = None
        self._sweep()

    def _sweep(self) -> None:
        for key in [k for k in self._dropped if k in self._taken]:
            if key[1] <= self._marks.get(key[0], 0):
                for table in (self._messages, self._delivered, self._taken, self._dropped):
                    table.pop(key, None)  # type: ignore[attr-defined]
