"""Which knowledge each participant has not been told: changed rows only go on the wire.

Everything known has a place in one list, in the order in which it was learned or last changed; for each
participant one number says up to where it was told. So the memory is one place per item and one number per
participant, and what is new for somebody is found without looking at anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from overlay.contact import PeerId


class Kind(IntEnum):
    ENTRY = 0
    ROW = 1
    SIGHT = 2


class Item(NamedTuple):
    kind: Kind
    of: PeerId
    """A sight is one item, of whoever tells it."""


class News:
    """What changed, in order, and how far each peer was told."""

    def __init__(self) -> None:
        self.latest = 0
        self._places: dict[Item, tuple[int, PeerId | None]] = {}
        self._told: dict[PeerId, int] = {}

    def changed(self, item: Item, learned_from: PeerId | None = None) -> None:
        """An item is new, or another than before; it is not told back to whom it came from."""
        self._places.pop(item, None)
        self.latest += 1
        self._places[item] = (self.latest, learned_from)

    def gone(self, item: Item) -> None:
        """There is no such item any more."""
        self._places.pop(item, None)

    def forget(self, peer: PeerId) -> None:
        """A participant left: there is nothing to tell of it but that, and nothing to tell to it."""
        self.gone(Item(Kind.ROW, peer))
        self._told.pop(peer, None)

    def untold(self, peer: PeerId) -> list[Item]:
        """What a peer was not told yet, the earliest first."""
        told = self._told.get(peer, 0)
        items: list[Item] = []
        for item, (place, learned_from) in reversed(self._places.items()):
            if place <= told:
                break
            if learned_from != peer:
                items.append(item)
        items.reverse()
        return items

    def told(self, peer: PeerId) -> None:
        """A peer has just been told everything."""
        self._told[peer] = self.latest

    def known_by(self, peers: Iterable[PeerId]) -> None:
        """These know all that there is, whoever told them."""
        self._told.update(dict.fromkeys(peers, self.latest))

    def not_told(self, peer: PeerId) -> None:
        """Something that a peer was told may have been lost: tell it everything again."""
        self._told.pop(peer, None)
