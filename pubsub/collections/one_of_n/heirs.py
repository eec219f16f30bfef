"""Who gives away what a publisher that is gone had not handed over.

Takers keep spare copies. When a stable view is reached, every member tells every other its *estate*:
which gifts it claims (it has them in hand, gives them away, or took them), and of which it has spare
copies. When all estates of the view are in, a gift whose publisher is not in the view, or is there in
another incarnation, and that nobody claims, is adopted by the member with the lowest id of those that have a
spare copy. Everybody decides alike, since everybody has the same estates, and members of one view know each
other's incarnations. A spare copy of such a gift that comes afterwards starts another round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from overlay.contact import PeerId
from overlay.context import Timer
from pubsub.collections.messages import Estate, Gift, Offer
from pubsub.collections.one_of_n.estates import Told, in_parts

NEXT_ROUND_SECONDS = 1.0
"""After which spare copies that came too late for a round cause another one."""

MOST_EARLY = 4096
"""Members whose estates of another view are kept."""


class Heirs:
    """One member's part; a core."""

    def __init__(
        self,
        me: PeerId,
        send: Callable[[PeerId, Estate], None],
        call_later: Callable[[float, Callable[[], None]], Timer],
        claimed: Callable[[], list[Gift]],
        adopt: Callable[[Offer], None],
        divided: Callable[[Callable[[Gift], bool]], None],
        most_spares: int,
    ) -> None:
        self._me = me
        self._send = send
        self._call_later = call_later
        self._claimed = claimed
        self._adopt = adopt
        self._divided = divided
        self._most_spares = most_spares
        self._spares: dict[Gift, Offer] = {}
        self._view: bytes | None = None
        self._members: dict[PeerId, int] = {}
        """With their incarnations."""
        self._round = 0
        self._estates: dict[PeerId, Told] = {}
        self._early: dict[PeerId, Told] = {}
        """Of another view than this member's, the latest from each."""
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """How many spare copies there are."""
        return len(self._spares)

    def keep(self, offer: Offer) -> None:
        """Keep a spare copy."""
        self._spares[offer.gift] = offer
        if len(self._spares) > self._most_spares:
            del self._spares[next(iter(self._spares))]
        if self._view is not None and not self._is_publisher_here(offer.gift):
            self._next_round_later()

    def taken(self, gift: Gift) -> None:
        self._spares.pop(gift, None)

    def close(self) -> None:
        self.unstable()
        if self._timer is not None:
            self._timer.cancel()

    # Views and rounds.

    def unstable(self) -> None:
        self._view = None
        self._estates = {}

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        """This member has come to a stable view; `members` are those that tell estates, with their
        incarnations."""
        self._view, self._members = view, dict(members)
        early, self._early = self._early, {}
        told = {p: e for p, e in early.items() if e.view == view and p in members}
        self._begin(max([estate.round for estate in told.values()], default=1))
        for member, estate in told.items():
            for part in estate.parts:
                self.told(member, part)

    def _begin(self, number: int) -> None:
        """Tell this member's estate in a round."""
        assert self._view is not None
        self._round = number
        claimed = [gift for gift in self._claimed() if not self._is_publisher_here(gift)]
        spare = [gift for gift in self._spares if not self._is_publisher_here(gift)]
        self._estates = {}
        for part in in_parts(self._view, number, claimed, spare):
            _gather(self._estates, self._me, part)
            for member in self._members:
                if member != self._me:
                    self._send(member, part)
        self._divide_if_complete()

    def told(self, sender: PeerId, part: Estate) -> None:
        """A part of another member's estate."""
        if part.view != self._view or sender not in self._members:
            _gather(self._early, sender, part)
            if len(self._early) > MOST_EARLY:
                del self._early[next(iter(self._early))]
            return
        if part.round > self._round:
            self._begin(part.round)
        before = self._estates.get(sender)
        if part.round == self._round and (before is None or not before.is_whole):
            _gather(self._estates, sender, part)
            self._divide_if_complete()

    def undelivered(self, to: PeerId, estate: Estate) -> None:
        """An estate may not have arrived; while its round lasts, it is told again."""
        if estate.view == self._view and estate.round == self._round:
            self._send(to, estate)

    def _next_round_later(self) -> None:
        if self._timer is None:
            self._timer = self._call_later(NEXT_ROUND_SECONDS, self._next_round)

    def _next_round(self) -> None:
        self._timer = None
        if self._view is not None:
            self._begin(self._round + 1)

    # Division.

    def _divide_if_complete(self) -> None:
        if any(p not in self._estates or not self._estates[p].is_whole for p in self._members):
            return
        claimed = {gift for estate in self._estates.values() for gift in estate.claimed}
        heir: dict[Gift, PeerId] = {}
        for member in sorted(self._estates):
            for gift in self._estates[member].spare:
                heir.setdefault(gift, member)
        for gift, offer in list(self._spares.items()):
            is_free = gift not in claimed and not self._is_publisher_here(gift)
            if is_free and heir.get(gift) == self._me:
                self._adopt(offer)
        self._divided(self._is_publisher_here)

    def _is_publisher_here(self, gift: Gift) -> bool:
        """Whether it is in the view in the incarnation that gives the gift away."""
        return self._members.get(gift[0]) == gift[1]


def _gather(estates: dict[PeerId, Told], member: PeerId, part: Estate) -> None:
    """Add a part; the first of another view or of a later round takes the place of all before it."""
    known = estates.get(member)
    if known is not None and known.view == part.view and known.round >= part.round:
        known.add(part)
    else:
        estates.pop(member, None)
        estates[member] = Told(part)
