"""Who assigns what a publisher that is gone had not handed over.

Takers keep spare copies. When a stable view is reached, every member tells every other its *holdings*:
which elements it claims (it has a lease of them, assigns them, or took them), and of which it has spare
copies, in as many messages as it takes. When all holdings of the view are in, an element whose publisher is
not in the view, or is there in another incarnation, and that nobody claims, is adopted by the member with the
lowest id of those that have a spare copy. Everybody decides alike, since everybody has the same holdings, and
members of one view know each other's incarnations. A spare copy of such an element that comes afterwards
starts another round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from overlay.bounded import remember
from overlay.contact import PeerId
from overlay.context import CallLater, OneTimer
from pubsub.collections.messages import ElementId, ElementOffer, Holdings
from pubsub.reliable.batches import batches

ELEMENTS_A_PART = 8192
"""Elements that one message tells of: some 40 bytes each."""


Told = dict[int, Holdings]
"""The parts of one member's holdings that have come, by their numbers, of one round in one view."""


NEXT_ROUND_SECONDS = 1.0
"""After which spare copies that came too late for a round cause another one."""

MOST_EARLY = 4096
"""Members whose holdings of another view are kept."""


class Redelivery:
    """One member's part in assigning the elements of publishers that are gone; a core."""

    def __init__(
        self,
        me: PeerId,
        send: Callable[[PeerId, Holdings], None],
        call_later: CallLater,
        claimed: Callable[[], list[ElementId]],
        adopt: Callable[[ElementOffer], None],
        divided: Callable[[Callable[[ElementId], bool]], None],
        most_spares: int,
    ) -> None:
        self._me = me
        self._send = send
        self._claimed = claimed
        self._adopt = adopt
        self._divided = divided
        self._most_spares = most_spares
        self._spares: dict[ElementId, ElementOffer] = {}
        self._view: bytes | None = None
        self._members: dict[PeerId, int] = {}
        """The members of the view, with their incarnations."""
        self._round = 0
        self._told: dict[PeerId, Told] = {}
        self._early: dict[PeerId, Told] = {}
        """The latest holdings that each member told in another view than this member's."""
        self._timer = OneTimer(call_later, self._next_round)

    def __len__(self) -> int:
        """How many spare copies there are."""
        return len(self._spares)

    def keep(self, offer: ElementOffer) -> None:
        """Keep a spare copy."""
        remember(self._spares, offer.element_id, offer, self._most_spares)
        if self._view is not None and not self._is_publisher_here(offer.element_id):
            self._timer.set(NEXT_ROUND_SECONDS)

    def taken(self, element_id: ElementId) -> None:
        self._spares.pop(element_id, None)

    def close(self) -> None:
        self.unstable()
        self._timer.close()

    # Views and rounds.

    def unstable(self) -> None:
        self._view = None
        self._told = {}

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        """This member has come to a stable view; `members` are those that tell holdings, with their
        incarnations."""
        self._view, self._members = view, dict(members)
        early, self._early = self._early, {}
        told = [
            (member, part)
            for member, parts in early.items()
            for part in parts.values()
            if part.view == view and member in members
        ]
        self._begin(max([part.round for _, part in told], default=1))
        for member, part in told:
            self.told(member, part)

    def _begin(self, number: int) -> None:
        """Tell this member's holdings in a round."""
        assert self._view is not None
        self._round = number
        claimed, spare = map(self._of_those_gone, (self._claimed(), self._spares))
        chunks = [(some, ()) for some in claimed] + [((), some) for some in spare] or [((), ())]
        self._told = {}
        for place, chunk in enumerate(chunks):
            part = Holdings(self._view, number, place, len(chunks), *chunk)
            _gather(self._told, self._me, part)
            for member in self._members:
                if member != self._me:
                    self._send(member, part)
        self._divide_if_complete()

    def _of_those_gone(self, element_ids: Iterable[ElementId]) -> list[tuple[ElementId, ...]]:
        """Those of some elements whose publishers are gone, in parts that are not too large to be sent."""
        gone = (one for one in element_ids if not self._is_publisher_here(one))
        return [tuple(some) for some in batches(gone, lambda one: 1, ELEMENTS_A_PART)]

    def told(self, sender: PeerId, part: Holdings) -> None:
        """A part of another member's holdings."""
        if part.view != self._view or sender not in self._members:
            _gather(self._early, sender, part)
            if len(self._early) > MOST_EARLY:
                del self._early[next(iter(self._early))]
            return
        if part.round > self._round:
            self._begin(part.round)
        before = self._told.get(sender)
        if part.round == self._round and (before is None or not _is_whole(before)):
            _gather(self._told, sender, part)
            self._divide_if_complete()

    def undelivered(self, to: PeerId, holdings: Holdings) -> None:
        """Holdings may not have arrived; while its round lasts, it is told again."""
        if holdings.view == self._view and holdings.round == self._round:
            self._send(to, holdings)

    def _next_round(self) -> None:
        if self._view is not None:
            self._begin(self._round + 1)

    # Division.

    def _divide_if_complete(self) -> None:
        if any(p not in self._told or not _is_whole(self._told[p]) for p in self._members):
            return
        claimed: set[ElementId] = set()
        chosen: dict[ElementId, PeerId] = {}
        for member in sorted(self._told):
            for part in self._told[member].values():
                claimed.update(part.claimed)
                for element_id in part.spare:
                    chosen.setdefault(element_id, member)
        for element_id, offer in list(self._spares.items()):
            is_free = element_id not in claimed and not self._is_publisher_here(element_id)
            if is_free and chosen.get(element_id) == self._me:
                self._adopt(offer)
        self._divided(self._is_publisher_here)

    def _is_publisher_here(self, element_id: ElementId) -> bool:
        """Whether it is in the view in the incarnation that gives the element away."""
        return self._members.get(element_id[0]) == element_id[1]


def _is_whole(told: Told) -> bool:
    return len(told) == next(iter(told.values())).parts


def _gather(all_holdings: dict[PeerId, Told], member: PeerId, part: Holdings) -> None:
    """Add a part; the first of another view or of a later round takes the place of all before it."""
    known = all_holdings.get(member)
    first = next(iter(known.values())) if known else None
    if known is None or first is None or first.view != part.view or first.round < part.round:
        all_holdings.pop(member, None)
        all_holdings[member] = {part.part: part}
    elif (first.round, first.parts) == (part.round, part.parts):
        known.setdefault(part.part, part)
