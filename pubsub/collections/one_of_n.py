"""One-of-n delivery: every element goes to exactly one of those who asked.

An element's publisher gives it away. It *offers* it to one of the *takers*, the participants who asked,
whose filter matches: the one that has the fewest in hand, each in turn. The taker has it in hand until
its application is done with it, and then answers that it is *taken*; or it gives it back. When a taker
leaves the view before it has answered, what it had in hand is offered to others, the oldest first.

What is promised: an element that is added while somebody asks is taken exactly once, as long as its
publisher lives and nobody who lives is taken for gone; whoever crashes with it in hand may have worked on
it. Across a partition an element may be taken on both sides: what a taker had in hand is offered anew on
the publisher's side, and an answer that comes late takes it off the list. Elements wait at their
publisher while all takers have their hands full or are away, `most_waiting` of them, the oldest being
dropped and counted; none waits that is added while nobody asks. An element that `most_attempts` takers
gave back is dropped and counted.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import PeerId
from overlay.errors import UsageError
from pubsub.collections.messages import Answer, Offer
from pubsub.filters import Filter

Count = Callable[[str], None]


@dataclass(frozen=True)
class OneOfNConfig:
    """How much is given to whom."""

    in_hand: int = 8
    """Elements of one publisher that a taker may have in hand."""

    most_waiting: int = 10_000
    """Elements that wait at their publisher."""

    most_attempts: int = 8
    """Takers that may give an element back."""

    def __post_init__(self) -> None:
        for name in ("in_hand", "most_waiting", "most_attempts"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be 1 or more")


@dataclass(frozen=True, slots=True)
class Taker:
    """A participant that asked, and what for; None is everything."""

    id: PeerId
    filter: Filter | None = None


@dataclass(slots=True)
class _Item:
    offer: Offer
    data: Any
    holder: PeerId | None = None
    given_back_by: dict[PeerId, None] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.offer.number


class Giver:
    """A publisher's elements until they are taken; a core."""

    def __init__(
        self,
        life: int,
        send: Callable[[PeerId, Offer], None],
        config: OneOfNConfig | None = None,
        count: Count = lambda reason: None,
    ) -> None:
        """`count` is told the reason of each element that is dropped."""
        self._life = life
        self._send = send
        self._config = config or OneOfNConfig()
        self._count = count
        self._items: dict[int, _Item] = {}
        """By their numbers, the oldest first."""
        self._waiting: list[int] = []
        """The numbers of those that nobody has in hand, in order."""
        self._number = 0
        self._takers: dict[PeerId, Taker] = {}
        """Those who asked and are in the view; the one that got something last is last."""
        self._in_hand: dict[PeerId, int] = {}
        self._is_asked = False

    @property
    def waiting(self) -> int:
        """Elements that nobody has in hand."""
        return len(self._waiting)

    @property
    def untaken(self) -> int:
        return len(self._items)

    def takers_are(self, present: Sequence[Taker], is_asked: bool) -> None:
        """Who asks and is in the view; `is_asked` when anybody asks at all, in the view or not."""
        now = {taker.id: taker for taker in present}
        self._takers = {peer: now[peer] for peer in self._takers if peer in now} | now
        self._is_asked = is_asked
        for item in self._items.values():
            if item.holder is not None and item.holder not in now:
                self._release(item)
        self._give()

    def add(self, topic: str, packed: bytes, data: Any) -> None:
        """An element to be given to one taker."""
        if not self._is_asked:
            return
        self._number += 1
        self._items[self._number] = _Item(Offer(self._life, self._number, topic, packed), data)
        self._waiting.append(self._number)
        self._give()
        if len(self._items) > self._config.most_waiting:
            self._drop(next(iter(self._items.values())), "nobody_took_it")

    def answered(self, sender: PeerId, answer: Answer) -> None:
        """A taker is done with an element, or gives it back."""
        item = self._items.get(answer.number) if answer.life == self._life else None
        if item is None:
            return
        if answer.taken:
            self._remove(item)
        elif item.holder == sender:
            self._release(item)
            item.given_back_by[sender] = None
            if len(item.given_back_by) >= self._config.most_attempts:
                self._drop(item, "given_back")
        self._give()

    def undelivered(self, taker: PeerId, offer: Offer) -> None:
        """An offer may not have reached its taker; while that is in the view, it is made again."""
        item = self._items.get(offer.number)
        if item is not None and item.holder == taker:
            self._send(taker, offer)

    def _give(self) -> None:
        for number in list(self._waiting):
            if all(self._in_hand.get(peer, 0) >= self._config.in_hand for peer in self._takers):
                return
            item = self._items[number]
            taker = self._choose(item)
            if taker is not None:
                self._waiting.remove(number)
                item.holder = taker
                self._in_hand[taker] = self._in_hand.get(taker, 0) + 1
                self._takers[taker] = self._takers.pop(taker)
                self._send(taker, item.offer)

    def _choose(self, item: _Item) -> PeerId | None:
        """Of those with room and a matching filter, the one with the least, and the longest without;
        one that gave it back only when nobody else is there."""
        able = [
            taker.id
            for taker in self._takers.values()
            if self._in_hand.get(taker.id, 0) < self._config.in_hand
            and (taker.filter is None or taker.filter.matches(item.data))
        ]
        willing = [peer for peer in able if peer not in item.given_back_by]
        others = [peer for peer in self._takers if peer not in item.given_back_by]
        candidates = willing if others else able
        return min(candidates, key=lambda peer: self._in_hand.get(peer, 0), default=None)

    def _release(self, item: _Item) -> None:
        if item.holder is not None:
            self._in_hand[item.holder] -= 1
            if not self._in_hand[item.holder]:
                del self._in_hand[item.holder]
            item.holder = None
            bisect.insort(self._waiting, item.number)

    def _remove(self, item: _Item) -> None:
        self._release(item)
        self._waiting.remove(item.number)
        del self._items[item.number]

    def _drop(self, item: _Item, reason: str) -> None:
        self._remove(item)
        self._count(reason)


Held = tuple[PeerId, int, int]
"""An element in hand: its publisher, the publisher's life, and the offer's number."""

MOST_REMEMBERED = 65_536
"""Elements taken that a taker remembers, to answer again when one is offered again."""


class Hands:
    """What a taker has in hand, of all publishers; a core."""

    def __init__(
        self,
        send: Callable[[PeerId, Answer], None],
        deliver: Callable[[Held, Offer], None],
    ) -> None:
        self._send = send
        self._deliver = deliver
        self._in_hand: dict[Held, None] = {}
        self._taken: dict[Held, None] = {}
        self._unanswered: dict[Held, Answer] = {}
        """Answers that did not arrive."""

    def __len__(self) -> int:
        return len(self._in_hand)

    def offered(self, sender: PeerId, offer: Offer) -> None:
        """Take an element in hand; one that was here before is not given to the application again."""
        held = (sender, offer.life, offer.number)
        if held in self._taken:
            self._send(sender, Answer(offer.life, offer.number, True))
        elif held not in self._in_hand:
            self._in_hand[held] = None
            self._deliver(held, offer)

    def done(self, held: Held) -> None:
        """The application is done with the element."""
        if self._in_hand.pop(held, held) is None:
            self._taken[held] = None
            if len(self._taken) > MOST_REMEMBERED:
                del self._taken[next(iter(self._taken))]
            self._send(held[0], Answer(held[1], held[2], True))

    def give_back(self, held: Held) -> None:
        """The application will not do it: another one is to have the element."""
        if self._in_hand.pop(held, held) is None:
            self._send(held[0], Answer(held[1], held[2], False))

    def undelivered(self, publisher: PeerId, answer: Answer) -> None:
        """An answer may not have arrived; it is given again when the publisher is there again."""
        self._unanswered[publisher, answer.life, answer.number] = answer
        if len(self._unanswered) > MOST_REMEMBERED:
            del self._unanswered[next(iter(self._unanswered))]

    def present_are(self, members: Sequence[PeerId]) -> None:
        """Who is in the view."""
        for held, answer in list(self._unanswered.items()):
            if held[0] in members:
                del self._unanswered[held]
                self._send(held[0], answer)
