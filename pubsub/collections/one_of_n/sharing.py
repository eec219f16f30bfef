"""One participant's whole part in one-of-n delivery: giver, hands and heirs together; a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from overlay.contact import PeerId
from overlay.context import Timer
from overlay.wire import WireError
from pubsub.collections.messages import Answer, Estate, Gift, Offer
from pubsub.collections.one_of_n.config import OneOfNConfig
from pubsub.collections.one_of_n.giver import Giver
from pubsub.collections.one_of_n.hands import Hands
from pubsub.collections.one_of_n.heirs import Heirs
from pubsub.collections.one_of_n.taker import Taker
from pubsub.event import unpack_data

Sent = Offer | Answer | Estate


class Sharing:
    def __init__(
        self,
        me: PeerId,
        incarnation: int,
        send: Callable[[PeerId, Sent], None],
        deliver: Callable[[Offer], None],
        tell_taken: Callable[[Gift], None],
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer],
        config: OneOfNConfig | None = None,
        on_room: Callable[[], None] = lambda: None,
        count: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`incarnation` is another one each time that a participant starts. `tell_taken` broadcasts
        reliably, to all who take and to the publisher, that a gift is taken; each of them, this one too,
        then calls `taken`. `on_room` is called when `is_full` may have ended."""
        self.config = config or OneOfNConfig()
        self._mine = (me, incarnation)
        self._tell_taken = tell_taken
        self._on_room = on_room
        self._count = count
        self.giver = Giver(send, self._given, call_later, self.config, on_room, count)
        self.hands = Hands(
            send,
            deliver,
            tell_taken,
            lambda offer: self.heirs.keep(offer),
            now,
            self.config.most_remembered,
        )
        self.heirs = Heirs(
            me,
            send,
            call_later,
            lambda: [*self.hands.claimed, *self.giver.gifts],
            self._adopt,
            self._divided,
            self.config.most_remembered,
        )
        self._is_asked = False

    # Who is there.

    def participants_are(
        self, members: Mapping[PeerId, int], takers: Sequence[Taker], is_asked: bool
    ) -> None:
        """Who is in the view, in which incarnation, and who of them takes; `is_asked` when anybody does,
        there or not."""
        self._is_asked = is_asked
        self.hands.present_are(members)
        self.giver.takers_are(takers, members)
        self._on_room()

    def unstable(self) -> None:
        self.heirs.unstable()

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        """A stable view was reached, with those of its members that share, and their incarnations."""
        self.heirs.stable(view, members)

    def close(self) -> None:
        """No timer is left."""
        self.giver.close()
        self.heirs.close()

    # Elements.

    @property
    def is_full(self) -> bool:
        """Whether a publisher is to wait before it adds more; never while nobody asks."""
        return self._is_asked and self.giver.is_full

    def added(self, gift: Gift, topic: str, packed: bytes, data: Any) -> None:
        """This participant has published an element."""
        if self._is_asked:
            self.giver.add(gift, topic, packed, data)

    def missed(self, gift: Gift, topic: str, packed: bytes, data: Any) -> None:
        """An element was published before this participant knew of somebody who asked. It is given to one
        taker now, unless it was before."""
        if not self.hands.knows_taken(gift):
            self.added(gift, topic, packed, data)

    def received(self, gift: Gift, topic: str, packed: bytes) -> None:
        """An element has come to a participant that takes: a spare copy."""
        if gift[:2] != self._mine and not self.hands.knows_taken(gift):
            self.heirs.keep(Offer(gift, topic, packed, 0))

    def taken(self, gift: Gift) -> None:
        """A broadcast tells that a gift was taken."""
        self.heirs.taken(gift)
        self.giver.taken(gift)
        self.hands.taken(gift)

    def _given(self, gift: Gift) -> None:
        """A taker has told this giver: it must not give it again before the broadcast has come back."""
        self.hands.remember(gift)
        self._tell_taken(gift)

    def _adopt(self, offer: Offer) -> None:
        if self.hands.knows_taken(offer.gift):
            return
        try:
            data = unpack_data(offer.data)
        except WireError as error:
            self._count(error.reason)
            self._tell_taken(offer.gift)
        else:
            self.giver.add(offer.gift, offer.topic, offer.data, data)

    def _divided(self, is_here: Callable[[Gift], bool]) -> None:
        """Leave gifts to their publishers that are back; tell what was taken for those that are gone."""
        adopted = [gift for gift in self.giver.gifts if gift[:2] != self._mine]
        self.giver.disown([gift for gift in adopted if is_here(gift)])
        for gift in self.hands.taken_here:
            if not is_here(gift):
                self._tell_taken(gift)

    # Messages.

    def direct(self, sender: PeerId, message: Sent) -> None:
        if isinstance(message, Offer):
            if message.to == self._mine[1]:
                self.hands.offered(sender, message)
        elif isinstance(message, Answer):
            self._answered(sender, message)
        else:
            self.heirs.told(sender, message)

    def _answered(self, sender: PeerId, answer: Answer) -> None:
        """A taker may answer to an incarnation that gave a gift away before this one."""
        if answer.gift in self.giver:
            self.giver.answered(sender, answer)
        elif answer.taken and not self.hands.knows_taken(answer.gift):
            self._tell_taken(answer.gift)

    def undelivered(self, to: PeerId, message: Sent) -> None:
        """A message may not have arrived."""
        if isinstance(message, Offer):
            self.giver.undelivered(to, message)
        elif isinstance(message, Answer):
            self.hands.undelivered(to, message)
        else:
            self.heirs.undelivered(to, message)
