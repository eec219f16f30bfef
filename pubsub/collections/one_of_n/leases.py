"""The elements that a taker has in hand, of all who assign."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from overlay.bounded import remember
from overlay.contact import PeerId
from pubsub.collections.messages import ElementId, ElementOffer, TakerAnswer

HEARD_SECONDS = 60.0
"""Within which all who can be reached have heard that an element is taken."""


@dataclass(frozen=True, slots=True)
class _Held:
    offer: ElementOffer
    assigner: PeerId
    incarnation: int
    """The incarnation of the assigner when it offered the element."""


class TakerLeases:
    """A core. An element that was here before is not given to the application again."""

    def __init__(
        self,
        send: Callable[[PeerId, TakerAnswer], None],
        deliver: Callable[[ElementOffer], None],
        on_taken: Callable[[ElementId], None],
        keep: Callable[[ElementOffer], None],
        now: Callable[[], float],
        most_remembered: int,
    ) -> None:
        """`on_taken` is called for what was taken when its assigner cannot be told, and `keep` for what was
        given back when its assigner is gone: others see to it."""
        self._send = send
        self._deliver = deliver
        self._on_taken = on_taken
        self._keep = keep
        self._now = now
        self._most_remembered = most_remembered
        self._present: dict[PeerId, int] = {}
        """The participants in the view, with their incarnations."""
        self._in_hand: dict[ElementId, _Held] = {}
        self._taken: dict[ElementId, float] = {}
        """Elements that are taken, with the time at which that became known, the oldest first."""
        self._returned: dict[ElementId, _Held] = {}
        """Elements that were given back, until it is clear that their assigners have them."""
        self._unknown: dict[ElementId, None] = {}
        """Elements that were taken here, until all have heard of it."""

    def __len__(self) -> int:
        return len(self._in_hand)

    @property
    def claimed(self) -> list[ElementId]:
        """What nobody else is to be offered: others may not have heard yet of what was just taken."""
        just = self._now() - HEARD_SECONDS
        recent = itertools.takewhile(
            lambda element_id: self._taken[element_id] > just, reversed(self._taken)
        )
        return [*self._in_hand, *self._unknown, *recent]

    @property
    def taken_here(self) -> list[ElementId]:
        """What was taken here, as long as not all have heard of it."""
        return list(self._unknown)

    def present_are(self, members: Mapping[PeerId, int]) -> None:
        """Who is in the view, in which incarnation; what assigners got back that are gone is for others."""
        self._present = dict(members)
        for element_id, held in list(self._returned.items()):
            if not self._is_there(held):
                del self._returned[element_id]
                self._keep(held.offer)

    def offered(self, sender: PeerId, offer: ElementOffer) -> None:
        """Take an element in hand; not from one who is gone, since others see to its elements."""
        element_id = offer.element_id
        if sender not in self._present:
            self._send(sender, TakerAnswer(element_id, False, unseen=True))
        elif element_id in self._taken:
            self._send(sender, TakerAnswer(element_id, True))
        else:
            is_new = element_id not in self._in_hand
            self._in_hand[element_id] = _Held(offer, sender, self._present[sender])
            if is_new:
                self._deliver(offer)

    def done(self, element_id: ElementId) -> None:
        """The application is done with the element."""
        held = self._in_hand.pop(element_id, None)
        if held is not None:
            self.remember(element_id)
            self._unknown[element_id] = None
            self._send(held.assigner, TakerAnswer(element_id, True))

    def give_back(self, element_id: ElementId) -> None:
        """The application will not do it: another one is to have the element."""
        held = self._in_hand.pop(element_id, None)
        if held is None:
            return
        if self._is_there(held):
            remember(self._returned, element_id, held, self._most_remembered)
        else:
            self._keep(held.offer)
        if held.assigner in self._present:
            self._send(held.assigner, TakerAnswer(element_id, False))

    def undelivered(self, assigner: PeerId, answer: TakerAnswer) -> None:
        """An assigner may not have heard; all are told what was taken, and while it is there it is told again
        what it gets back."""
        if answer.taken:
            self._on_taken(answer.element_id)
        elif assigner in self._present:
            self._send(assigner, answer)

    def taken(self, element_id: ElementId) -> None:
        """All have heard, or hear now, that it is taken."""
        self._unknown.pop(element_id, None)
        self._returned.pop(element_id, None)
        self.remember(element_id)

    def knows_taken(self, element_id: ElementId) -> bool:
        return element_id in self._taken

    def _is_there(self, held: _Held) -> bool:
        """Whether its assigner, which may have returned without it, is the one that offered it."""
        return self._present.get(held.assigner) == held.incarnation

    def remember(self, element_id: ElementId) -> None:
        """It is taken; others may not have heard yet."""
        remember(self._taken, element_id, self._now(), self._most_remembered)
