"""Who gives away what a publisher that is gone had not handed over.

Takers keep spare copies. When a stable view is reached, every member tells every other its *estate*:
which gifts it claims (it has them in hand, gives them away, or took them), and of which it has spare
copies. When all estates of the view are in, a gift whose publisher is not in the view, or is there in
another life, and that nobody claims, is adopted by the member with the lowest id of those that have a
spare copy. Everybody decides alike, since everybody has the same estates. A spare copy of such a gift
that comes afterwards starts another round.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import PeerId
from overlay.context import Timer
from pubsub.collections.messages import Estate, Gift, Offer

NEXT_ROUND_SECONDS = 1.0
"""After which spare copies that came too late for a round cause another one."""

MOST_TOLD = 20_000
"""Gifts of each kind that one estate tells of."""


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
        self._lives: dict[PeerId, int] = {}
        """Of each publisher, the latest life that something came from."""
        self._view: bytes | None = None
        self._members: tuple[PeerId, ...] = ()
        self._life = 0
        self._round = 0
        self._estates: dict[PeerId, Estate] = {}
        self._early: dict[PeerId, Estate] = {}
        """Of another view than this member's, the latest from each."""
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """How many spare copies there are."""
        return len(self._spares)

    def keep(self, offer: Offer) -> None:
        """Keep a spare copy."""
        publisher, life, _ = offer.gift
        self._lives[publisher] = max(life, self._lives.get(publisher, 0))
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

    def stable(self, view: bytes, members: tuple[PeerId, ...], life: int) -> None:
        """This member has come to a stable view; `members` are those that tell estates."""
        self._view, self._members, self._life = view, members, life
        early, self._early = self._early, {}
        told = [(p, e) for p, e in early.items() if e.view == view and p in members]
        self._begin(max([estate.round for _, estate in told], default=1))
        for member, estate in told:
            self.told(member, estate)

    def _begin(self, number: int) -> None:
        """Tell this member's estate in a round."""
        assert self._view is not None
        self._round = number
        claimed = [gift for gift in self._claimed() if self._may_be_gone(gift)]
        spare = [gift for gift in self._spares if self._may_be_gone(gift)]
        told = (tuple(gifts[:MOST_TOLD]) for gifts in (claimed, spare))
        mine = Estate(self._view, number, self._life, *told)
        self._estates = {self._me: mine}
        for member in self._members:
            if member != self._me:
                self._send(member, mine)
        self._divide_if_complete()

    def told(self, sender: PeerId, estate: Estate) -> None:
        """Another member's estate."""
        if estate.view != self._view or sender not in self._members:
            self._early.pop(sender, None)
            self._early[sender] = estate
            if len(self._early) > MOST_TOLD:
                del self._early[next(iter(self._early))]
            return
        if estate.round > self._round:
            self._begin(estate.round)
        if estate.round == self._round and sender not in self._estates:
            self._estates[sender] = estate
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
        if any(member not in self._estates for member in self._members):
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

    def _may_be_gone(self, gift: Gift) -> bool:
        """Whether the others need to hear of the gift: its publisher seems to be gone, or another."""
        return gift[0] not in self._members or gift[1] != self._lives.get(gift[0], gift[1])

    def _is_publisher_here(self, gift: Gift) -> bool:
        """Whether it has told its estate in this view, in the life in which it published the gift; as long
        as it is in the view and has not told, it may."""
        estate = self._estates.get(gift[0])
        return gift[0] in self._members if estate is None else estate.life == gift[1]
