"""What a taker has in hand, of all givers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from overlay.contact import PeerId
from pubsub.collections.messages import Answer, Gift, Offer

HEARD_SECONDS = 60.0
"""Within which all who can be reached have heard that a gift is taken."""


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
        self._present: tuple[PeerId, ...] = ()
        self._in_hand: dict[Gift, tuple[PeerId, Offer]] = {}
        """With who gave it."""
        self._taken: dict[Gift, float] = {}
        """With the time at which it became known, the oldest first."""
        self._returned: dict[Gift, Offer] = {}
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

    def present_are(self, members: Sequence[PeerId]) -> None:
        """Who is in the view."""
        self._present = tuple(members)

    def offered(self, sender: PeerId, offer: Offer) -> None:
        """Take a gift in hand; not from one who is gone, since heirs see to its gifts."""
        gift = offer.gift
        if sender not in self._present:
            self._send(sender, Answer(gift, False))
        elif gift in self._taken:
            self._send(sender, Answer(gift, True))
        elif gift in self._in_hand:
            self._in_hand[gift] = (sender, offer)
        else:
            self._in_hand[gift] = (sender, offer)
            self._deliver(offer)

    def done(self, gift: Gift) -> None:
        """The application is done with the element."""
        held = self._in_hand.pop(gift, None)
        if held is not None:
            self._remember(gift)
            self._unknown[gift] = None
            self._send(held[0], Answer(gift, True))

    def give_back(self, gift: Gift) -> None:
        """The application will not do it: another one is to have the element."""
        held = self._in_hand.pop(gift, None)
        if held is None:
            return
        giver, offer = held
        if giver in self._present:
            self._returned[gift] = offer
            if len(self._returned) > self._most_remembered:
                del self._returned[next(iter(self._returned))]
            self._send(giver, Answer(gift, False))
        else:
            self._keep(offer)

    def undelivered(self, giver: PeerId, answer: Answer) -> None:
        """A giver may not have heard; all are told what was taken, and what it gets back is for heirs when
        it is gone."""
        if answer.taken:
            self._on_taken(answer.gift)
        elif giver in self._present:
            self._send(giver, answer)
        elif answer.gift in self._returned:
            self._keep(self._returned.pop(answer.gift))

    def taken(self, gift: Gift) -> None:
        """All have heard, or hear now, that it is taken."""
        self._unknown.pop(gift, None)
        self._returned.pop(gift, None)
        self._remember(gift)

    def knows_taken(self, gift: Gift) -> bool:
        return gift in self._taken

    def _remember(self, gift: Gift) -> None:
        self._taken.pop(gift, None)
        self._taken[gift] = self._now()
        if len(self._taken) > self._most_remembered:
            del self._taken[next(iter(self._taken))]
