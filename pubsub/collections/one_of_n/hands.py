"""What a taker has in hand, of all givers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlay.contact import PeerId
from pubsub.collections.messages import Answer, Gift, Offer

HEARD_SECONDS = 60.0
"""Within which all who can be reached have heard that a gift is taken."""


@dataclass(frozen=True, slots=True)
class _Held:
    offer: Offer
    giver: PeerId
    incarnation: int
    """Of the giver, when it offered it."""


class Hands:
    """A core. An element that was here before is not given to the application again."""

    def __init__(
        self,
        send: Callable[[PeerId, Answer], None],
        deliver: Callable[[Offer], None],
        on_taken: Callable[[Gift], None],
        keep: Callable[[Offer], None],
        now: Callable[[], float],
        most_remembered: int,
    ) -> None:
        """`on_taken` is called for what was taken when its giver cannot be told, and `keep` for what was
        given back when its giver is gone: heirs see to it."""
        self._send = send
        self._deliver = deliver
        self._on_taken = on_taken
        self._keep = keep
        self._now = now
        self._most_remembered = most_remembered
        self._present: dict[PeerId, int] = {}
        """With their incarnations."""
        self._in_hand: dict[Gift, _Held] = {}
        self._taken: dict[Gift, float] = {}
        """With the time at which it became known, the oldest first."""
        self._returned: dict[Gift, _Held] = {}
        """Those that were given back, until it is clear that their givers have them."""
        self._unknown: dict[Gift, None] = {}
        """Those that were taken here, until all have heard of it."""

    def __len__(self) -> int:
        return len(self._in_hand)

    @property
    def claimed(self) -> list[Gift]:
        """What nobody else is to be offered: others may not have heard yet of what was just taken."""
        just = self._now() - HEARD_SECONDS
        recent = itertools.takewhile(lambda gift: self._taken[gift] > just, reversed(self._taken))
        return [*self._in_hand, *self._unknown, *recent]

    @property
    def taken_here(self) -> list[Gift]:
        """What was taken here, as long as not all have heard of it."""
        return list(self._unknown)

    def present_are(self, members: Mapping[PeerId, int]) -> None:
        """Who is in the view, in which incarnation; what givers got back that are gone is for heirs."""
        self._present = dict(members)
        for gift, held in list(self._returned.items()):
            if not self._is_there(held):
                del self._returned[gift]
                self._keep(held.offer)

    def offered(self, sender: PeerId, offer: Offer) -> None:
        """Take a gift in hand; not from one who is gone, since heirs see to its gifts."""
        gift = offer.gift
        if sender not in self._present:
            self._send(sender, Answer(gift, False, unseen=True))
        elif gift in self._taken:
            self._send(sender, Answer(gift, True))
        else:
            is_new = gift not in self._in_hand
            self._in_hand[gift] = _Held(offer, sender, self._present[sender])
            if is_new:
                self._deliver(offer)

    def done(self, gift: Gift) -> None:
        """The application is done with the element."""
        held = self._in_hand.pop(gift, None)
        if held is not None:
            self.remember(gift)
            self._unknown[gift] = None
            self._send(held.giver, Answer(gift, True))

    def give_back(self, gift: Gift) -> None:
        """The application will not do it: another one is to have the element."""
        held = self._in_hand.pop(gift, None)
        if held is None:
            return
        if self._is_there(held):
            self._returned[gift] = held
            if len(self._returned) > self._most_remembered:
                del self._returned[next(iter(self._returned))]
        else:
            self._keep(held.offer)
        if held.giver in self._present:
            self._send(held.giver, Answer(gift, False))

    def undelivered(self, giver: PeerId, answer: Answer) -> None:
        """A giver may not have heard; all are told what was taken, and while it is there it is told again
        what it gets back."""
        if answer.taken:
            self._on_taken(answer.gift)
        elif giver in self._present:
            self._send(giver, answer)

    def taken(self, gift: Gift) -> None:
        """All have heard, or hear now, that it is taken."""
        self._unknown.pop(gift, None)
        self._returned.pop(gift, None)
        self.remember(gift)

    def knows_taken(self, gift: Gift) -> bool:
        return gift in self._taken

    def _is_there(self, held: _Held) -> bool:
        """Whether its giver, which may have returned without it, is the one that offered it."""
        return self._present.get(held.giver) == held.incarnation

    def remember(self, gift: Gift) -> None:
        """It is taken; others may not have heard yet."""
        self._taken.pop(gift, None)
        self._taken[gift] = self._now()
        if len(self._taken) > self._most_remembered:
            del self._taken[next(iter(self._taken))]
