"""Who assigns elements: each to the taker with the fewest leases, all in turn, until one has taken it."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from overlay.contact import PeerId
from overlay.context import CallLater, OneTimer
from pubsub.collections.config import OneOfNConfig
from pubsub.collections.messages import ElementId, ElementOffer, TakerAnswer
from pubsub.filters import Filter

TRY_AGAIN_SECONDS = 2.0
"""After which an element that all takers gave back is offered to them again."""


@dataclass(frozen=True, slots=True)
class Taker:
    id: PeerId
    filter: Filter | None = None
    """What it asked for; None is everything."""

    def wants(self, data: Any) -> bool:
        return self.filter is None or self.filter.matches(data)


@dataclass(slots=True)
class _Item:
    place: int
    """In the order in which they came to this assigner."""
    offer: ElementOffer
    data: Any
    holder: PeerId | None = None
    given_back_by: dict[PeerId, None] = field(default_factory=dict)
    """Who is not to be offered it again for a while."""
    attempts: int = 0
    """How often it was given back."""


class Assigner:
    """The elements that one participant assigns, its own and those that it has adopted; a core."""

    def __init__(
        self,
        send: Callable[[PeerId, ElementOffer], None],
        on_taken: Callable[[ElementId], None],
        call_later: CallLater,
        config: OneOfNConfig,
        on_room: Callable[[], None],
        count: Callable[[str], None],
    ) -> None:
        """`on_room` is called when it is not full any more, and `count` is told the reason of each element
        that is dropped."""
        self._send = send
        self._on_taken = on_taken
        self._config = config
        self._on_room = on_room
        self._count = count
        self._items: dict[ElementId, _Item] = {}
        """The elements to be assigned, the oldest first."""
        self._waiting: list[tuple[int, ElementId]] = []
        """The elements that no taker has in hand, in order."""
        self._places = 0
        self.takers: dict[PeerId, Taker] = {}
        """Those who asked and are in the view; the one that got something last is last."""
        self._present: dict[PeerId, int] = {}
        """All in the view, with their incarnations."""
        self._in_hand: dict[PeerId, int] = {}
        self._timer = OneTimer(call_later, self._try_again)

    def __contains__(self, element_id: ElementId) -> bool:
        return element_id in self._items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def element_ids(self) -> list[ElementId]:
        return list(self._items)

    @property
    def waiting(self) -> int:
        """Elements that nobody has in hand."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more; what is adopted all the same is not dropped."""
        return len(self._items) >= self._config.most_waiting

    def takers_are(self, takers: Sequence[Taker], present: Mapping[PeerId, int]) -> None:
        """Who asks, and who is in the view, in which incarnation.

        What one had in hand that is gone, or has returned, goes to others. One that is there and does
        not ask any more may still be at work, and answers in any case."""
        now = {taker.id: taker for taker in takers}
        self.takers = {peer: now[peer] for peer in self.takers if peer in now} | now
        gone = {peer for peer, before in self._present.items() if present.get(peer) != before}
        self._present = dict(present)
        for item in self._items.values():
            if item.holder in gone:
                self._release(item)
        self._give()

    def add(self, element_id: ElementId, topic: str, packed: bytes, data: Any) -> None:
        """An element to be given to one taker."""
        if element_id in self._items:
            return
        self._places += 1
        self._items[element_id] = _Item(
            self._places, ElementOffer(element_id, topic, packed, 0), data
        )
        self._waiting.append((self._places, element_id))
        self._give()

    def disown(self, element_ids: Sequence[ElementId]) -> None:
        """Somebody else gives these away again; those in somebody's hand stay until answered."""
        for element_id in element_ids:
            item = self._items.get(element_id)
            if item is not None and item.holder is None:
                self._remove(item)

    def taken(self, element_id: ElementId) -> None:
        """It has been taken, wherever that became known."""
        item = self._items.get(element_id)
        if item is not None:
            self._remove(item)
            self._give()

    def answered(self, sender: PeerId, answer: TakerAnswer) -> None:
        """A taker is done with an element, or gives it back."""
        item = self._items.get(answer.element_id)
        if item is None:
            return
        if answer.taken:
            self._remove(item)
            self._on_taken(answer.element_id)
        elif item.holder == sender:
            self._release(item)
            item.given_back_by[sender] = None
            item.attempts += not answer.unseen
            if item.attempts >= self._config.most_attempts:
                self._drop(item)
            else:
                self._timer.set(TRY_AGAIN_SECONDS)
        self._give()

    def undelivered(self, taker: PeerId, offer: ElementOffer) -> None:
        """An offer may not have reached its taker; while that is in the view, it is made again."""
        item = self._items.get(offer.element_id)
        if item is not None and item.holder == taker:
            self._send(taker, offer)

    def close(self) -> None:
        """Give nothing more."""
        self.takers = {}
        self._timer.close()

    def _try_again(self) -> None:
        """Offer the elements that every taker gave back to the takers that are there."""
        for item in self._items.values():
            if item.given_back_by:
                self._timer.set(TRY_AGAIN_SECONDS)
                if item.holder is None and all(p in item.given_back_by for p in self.takers):
                    item.given_back_by.clear()
        self._give()

    def _give(self) -> None:
        for place, element_id in list(self._waiting):
            if all(self._in_hand.get(peer, 0) >= self._config.in_hand for peer in self.takers):
                return
            item = self._items[element_id]
            taker = self._choose(item)
            if taker is not None:
                self._waiting.remove((place, element_id))
                item.holder = taker
                item.offer = replace(item.offer, to=self._present[taker])
                self._in_hand[taker] = self._in_hand.get(taker, 0) + 1
                self.takers[taker] = self.takers.pop(taker)
                self._send(taker, item.offer)

    def _choose(self, item: _Item) -> PeerId | None:
        """Of those with room and a matching filter, the one with the least, and the longest without."""
        able = [
            peer
            for peer, taker in self.takers.items()
            if peer not in item.given_back_by
            and self._in_hand.get(peer, 0) < self._config.in_hand
            and taker.wants(item.data)
        ]
        return min(able, key=lambda peer: self._in_hand.get(peer, 0), default=None)

    def _release(self, item: _Item) -> None:
        if item.holder is not None:
            self._in_hand[item.holder] -= 1
            if not self._in_hand[item.holder]:
                del self._in_hand[item.holder]
            item.holder = None
            bisect.insort(self._waiting, (item.place, item.offer.element_id))

    def _remove(self, item: _Item) -> None:
        self._release(item)
        self._waiting.remove((item.place, item.offer.element_id))
        was_full = self.is_full
        del self._items[item.offer.element_id]
        if was_full and not self.is_full:
            self._on_room()

    def _drop(self, item: _Item) -> None:
        """Nobody shall be offered it again: for the others it counts as taken."""
        self._remove(item)
        self._count("given_back")
        self._on_taken(item.offer.element_id)
