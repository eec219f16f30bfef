"""The messages that a participant holds because somebody may still lack them: the paper's
messagesReceived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from overlay.contact import ID_BYTES, PeerId
from pubsub.topic_broadcast.messages import Item

OVERHEAD = 256
"""Bytes that a held message is charged beyond its payload and those whom it names."""

NAME_BYTES = ID_BYTES + 2


@dataclass(slots=True)
class Held:
    """One message, since when, who is known to hold it beside those who say so, and to whom it was sent."""

    item: Item
    since: float
    holders: dict[PeerId, None] = field(default_factory=dict)
    sent: dict[PeerId, None] = field(default_factory=dict)
    """It is on its way to these, or was received there; taken back when it turns out to be lost."""
    revived: bool = False
    """Everybody had it, and then one appeared that began the topic apart and does not."""

    @property
    def size(self) -> int:
        return self.stub_size + len(self.item.payload or b"")

    @property
    def stub_size(self) -> int:
        """What it takes to tell those to whom it is not addressed."""
        return OVERHEAD + NAME_BYTES * len(self.item.named)


class HeldMessages:
    """By source and number, each source's in the order of arrival."""

    def __init__(self) -> None:
        self.by_source: dict[bytes, dict[int, Held]] = {}
        self.bytes = 0
        self._bytes_of: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_source.values()))

    def __iter__(self) -> Iterator[Held]:
        for messages in self.by_source.values():
            yield from messages.values()

    def add(self, held: Held) -> None:
        source = held.item.source
        self.by_source.setdefault(source, {})[held.item.number] = held
        self.bytes += held.size
        self._bytes_of[source] = self._bytes_of.get(source, 0) + held.size

    def drop(self, source: bytes, number: int) -> bool:
        messages = self.by_source.get(source)
        held = messages.pop(number, None) if messages is not None else None
        if held is None:
            return False
        self.bytes -= held.size
        self._bytes_of[source] -= held.size
        if not messages:
            del self.by_source[source]
            del self._bytes_of[source]
        return True

    def bytes_of(self, source: bytes) -> int:
        return self._bytes_of.get(source, 0)

    def get(self, source: bytes, number: int) -> Held | None:
        return self.by_source.get(source, {}).get(number)

    def of(self, source: bytes) -> dict[int, Held]:
        return self.by_source.get(source, {})

    def older_than(self, since: float) -> list[bytes]:
        """The sources of which a message is held since before a time."""
        return [
            source
            for source, messages in self.by_source.items()
            if next(iter(messages.values())).since < since
        ]

    def unsend(self, peer: PeerId) -> None:
        """Nothing counts as sent to this peer any more."""
        for held in self:
            held.sent.pop(peer, None)
            held.holders.pop(peer, None)


class KeptMessages:
    """Messages that everybody has, of the last moments: one may appear that began the topic apart from those
    who are known, and took part when they were published."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._kept: dict[tuple[bytes, int], tuple[Item, float]] = {}
        """With the time of keeping, the oldest first."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, held: Held, now: float) -> None:
        key = (held.item.source, held.item.number)
        if key not in self._kept:
            self._kept[key] = (held.item, now)
            self._bytes += held.size
            self._forget_old(now)

    def take_lacked(
        self, has: Callable[[bytes, int], bool], known_since: float, now: float
    ) -> list[Item]:
        """Take out what a participant lacks of what was let go before it was known."""
        self._forget_old(now)
        lacked = [
            item
            for item, since in self._kept.values()
            if since <= known_since and not has(item.source, item.number)
        ]
        for item in lacked:
            self._forget((item.source, item.number))
        return lacked

    def _forget_old(self, now: float) -> None:
        while self._kept:
            key, (_, since) = next(iter(self._kept.items()))
            if self._bytes <= self._most_bytes and now - since < self._seconds:
                return
            self._forget(key)

    def _forget(self, key: tuple[bytes, int]) -> None:
        item, since = self._kept.pop(key)
        self._bytes -= Held(item, since).size
