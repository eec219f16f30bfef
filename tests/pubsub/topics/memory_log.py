"""A participant's log in memory, which a crash and a full disk treat as they treat a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pubsub.topics.log import Restored, TopicLog
from pubsub.topics.messages import Entry, Item, SourceNumbers

_Change = Callable[[dict[str, dict[Any, Any]]], None]


class MemoryLog(TopicLog):
    """A disk that loses what was not synced when its participant crashes, and may be full."""

    is_durable = True

    def __init__(self) -> None:
        self.later: Callable[[Callable[[], None]], object] = lambda action: action()
        """Calls something when a write has ended."""
        self._is_full = False
        self._writes: list[tuple[list[_Change], Callable[[], None]]] = []
        self._disk: dict[str, dict[Any, Any]] = {k: {} for k in ("meta", "items", "nums", "people")}
        self._pending: list[_Change] = []

    @property
    def is_full(self) -> bool:
        return self._is_full

    @is_full.setter
    def is_full(self, is_full: bool) -> None:
        self._is_full = is_full
        self._write()

    def crash(self) -> None:
        self._pending.clear()
        self._writes.clear()

    def restore(self) -> Restored:
        disk = self._disk
        if "run" not in disk["meta"]:
            return Restored()
        items = list(disk["items"].values())
        return Restored(
            disk["meta"]["run"],
            disk["meta"]["boot"],
            tuple(disk["people"].values()),
            tuple((source, *n) for source, n in disk["nums"].items()),
            tuple(item for item, flags in items if not flags["collected"]),
            tuple(item for item, flags in items if flags["unfinished"]),
            disk["meta"].get("note", 0),
        )

    def began(self, boot: int, run: bytes) -> None:
        self._pending.append(lambda disk: disk["meta"].update(boot=boot, run=run))

    def took(self, item: Item, unfinished: bool) -> None:
        flags = {"collected": False, "unfinished": unfinished}
        self._pending.append(
            lambda disk: disk["items"].update({(item.source, item.number): (item, flags)})
        )

    def finished(self, item: Item) -> None:
        self._flag(item, "unfinished", False)

    def collected(self, item: Item) -> None:
        self._flag(item, "collected", True)

    def _flag(self, item: Item, flag: str, value: bool) -> None:
        def apply(disk: dict[str, dict[Any, Any]]) -> None:
            if (item.source, item.number) in disk["items"]:
                disk["items"][item.source, item.number][1][flag] = value

        self._pending.append(apply)

    def knows(self, entry: Entry) -> None:
        self._pending.append(lambda disk: disk["people"].update({entry.id: entry}))

    def noted(self, note: int) -> None:
        self._pending.append(lambda disk: disk["meta"].update(note=note))

    async def close(self) -> None:
        pass

    def sync(self, received: Iterable[SourceNumbers], then: Callable[[], None]) -> None:
        for source, mark, ranges in received:
            self._pending.append(_numbers(source, mark, ranges))
        changes, self._pending = self._pending, []
        self._writes.append((changes, then))
        self.later(self._write)

    def _write(self) -> None:
        while self._writes and not self._is_full:
            changes, then = self._writes.pop(0)
            for change in changes:
                change(self._disk)
            then()


def _numbers(source: bytes, mark: int, ranges: tuple[tuple[int, int], ...]) -> _Change:
    return lambda disk: disk["nums"].update({source: (mark, ranges)})
