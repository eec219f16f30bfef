"""One participant's whole part in one-of-n delivery: assigner, leases and redelivery together; a core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from overlay.contact import PeerId
from overlay.context import CallLater, OneTimer
from overlay.wire import WireError
from pubsub.collections.config import OneOfNConfig
from pubsub.collections.messages import ElementId, ElementOffer, Holdings, TakerAnswer
from pubsub.collections.one_of_n.assigning import Assigner, Taker
from pubsub.collections.one_of_n.leases import TakerLeases
from pubsub.collections.one_of_n.redelivery import Redelivery
from pubsub.data import unpack_data

MOST_REMEMBERED = 65_536
"""Elements taken, and spare copies, that a participant remembers."""


class Presence:
    """Who is there to assign and take: in the view, or out of it for no longer than a moment; a core.

    A participant is gone when it has left, runs in another incarnation, or is out of the view for
    `gone_after` seconds.
    """

    def __init__(
        self,
        gone_after: float,
        now: Callable[[], float],
        call_later: CallLater,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when somebody may count as gone: `update` is to be called again."""
        self._gone_after = gone_after
        self._now = now
        self._present: dict[PeerId, int] = {}
        self._out_since: dict[PeerId, float] = {}
        self._timer = OneTimer(call_later, on_change)

    def update(
        self, view: Collection[PeerId], incarnations: Mapping[PeerId, int]
    ) -> dict[PeerId, int]:
        """Those who are there, with their incarnations; `incarnations` has all who have not left."""
        now, inside = self._now(), frozenset(view)
        out_since = {
            peer: self._out_since.get(peer, now)
            for peer, incarnation in self._present.items()
            if peer not in inside and incarnations.get(peer) == incarnation
        }
        waiting = {peer: s for peer, s in out_since.items() if now - s < self._gone_after}
        self._out_since = waiting
        self._present = {p: i for p, i in incarnations.items() if p in inside or p in waiting}
        if waiting:
            wait = min(waiting.values()) + self._gone_after - now
            self._timer.set(max(wait, 0.001))
        return dict(self._present)

    def close(self) -> None:
        self._timer.close()


Sent = ElementOffer | TakerAnswer | Holdings


class Sharing:
    def __init__(
        self,
        me: PeerId,
        incarnation: int,
        send: Callable[[PeerId, Sent], None],
        deliver: Callable[[ElementOffer], None],
        tell_taken: Callable[[ElementId], None],
        now: Callable[[], float],
        call_later: CallLater,
        config: OneOfNConfig | None = None,
        on_room: Callable[[], None] = lambda: None,
        count: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`incarnation` is another one each time that a participant starts. `tell_taken` broadcasts
        reliably, to all who take and to the publisher, that an element is taken; each of them, this one too,
        then calls `taken`. `on_room` is called when `is_full` may have ended."""
        self.config = config or OneOfNConfig()
        self._mine = (me, incarnation)
        self._tell_taken = tell_taken
        self._on_room = on_room
        self._count = count
        self.assigner = Assigner(send, self._given, call_later, self.config, on_room, count)
        self.leases = TakerLeases(
            send,
            deliver,
            tell_taken,
            lambda offer: self.redelivery.keep(offer),
            now,
            MOST_REMEMBERED,
        )
        self.redelivery = Redelivery(
            me,
            send,
            call_later,
            lambda: [*self.leases.claimed, *self.assigner.element_ids],
            self._adopt,
            self._divided,
            MOST_REMEMBERED,
        )
        self._is_asked = False

    # Who is there.

    def participants_are(
        self, members: Mapping[PeerId, int], takers: Sequence[Taker], is_asked: bool
    ) -> None:
        """Who is in the view, in which incarnation, and who of them takes; `is_asked` when anybody does,
        there or not."""
        self._is_asked = is_asked
        self.leases.present_are(members)
        self.assigner.takers_are(takers, members)
        self._on_room()

    def unstable(self) -> None:
        self.redelivery.unstable()

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        """A stable view was reached, with those of its members that share, and their incarnations."""
        self.redelivery.stable(view, members)

    def close(self) -> None:
        """No timer is left."""
        self.assigner.close()
        self.redelivery.close()

    # Elements.

    @property
    def is_full(self) -> bool:
        """Whether a publisher is to wait before it adds more; never while nobody asks."""
        return self._is_asked and self.assigner.is_full

    def added(self, element_id: ElementId, topic: str, packed: bytes, data: Any) -> None:
        """This participant has published an element."""
        if self._is_asked:
            self.assigner.add(element_id, topic, packed, data)

    def missed(self, element_id: ElementId, topic: str, packed: bytes, data: Any) -> None:
        """An element was published before this participant knew of somebody who asked. It is given to one
        taker now, unless it was before."""
        if not self.leases.knows_taken(element_id):
            self.added(element_id, topic, packed, data)

    def received(self, element_id: ElementId, topic: str, packed: bytes) -> None:
        """An element has come to a participant that takes: a spare copy."""
        if element_id[:2] != self._mine and not self.leases.knows_taken(element_id):
            self.redelivery.keep(ElementOffer(element_id, topic, packed, 0))

    def taken(self, element_id: ElementId) -> None:
        """A broadcast tells that an element was taken."""
        self.redelivery.taken(element_id)
        self.assigner.taken(element_id)
        self.leases.taken(element_id)

    def _given(self, element_id: ElementId) -> None:
        """A taker has told this assigner: it must not give it again before the broadcast has come back."""
        self.leases.remember(element_id)
        self._tell_taken(element_id)

    def _adopt(self, offer: ElementOffer) -> None:
        if self.leases.knows_taken(offer.element_id):
            return
        try:
            data = unpack_data(offer.data)
        except WireError as error:
            self._count(error.reason)
            self._tell_taken(offer.element_id)
        else:
            self.assigner.add(offer.element_id, offer.topic, offer.data, data)

    def _divided(self, is_here: Callable[[ElementId], bool]) -> None:
        """Leave elements to their publishers that are back; tell what was taken for those that are gone."""
        adopted = [
            element_id for element_id in self.assigner.element_ids if element_id[:2] != self._mine
        ]
        self.assigner.disown([element_id for element_id in adopted if is_here(element_id)])
        for element_id in self.leases.taken_here:
            if not is_here(element_id):
                self._tell_taken(element_id)

    # Messages.

    def direct(self, sender: PeerId, message: Sent) -> None:
        if isinstance(message, ElementOffer):
            if message.to == self._mine[1]:
                self.leases.offered(sender, message)
        elif isinstance(message, TakerAnswer):
            self._answered(sender, message)
        else:
            self.redelivery.told(sender, message)

    def _answered(self, sender: PeerId, answer: TakerAnswer) -> None:
        """A taker may answer to an incarnation that gave an element away before this one."""
        if answer.element_id in self.assigner:
            self.assigner.answered(sender, answer)
        elif answer.taken and not self.leases.knows_taken(answer.element_id):
            self._tell_taken(answer.element_id)

    def undelivered(self, to: PeerId, message: Sent) -> None:
        """A message may not have arrived."""
        if isinstance(message, ElementOffer):
            self.assigner.undelivered(to, message)
        elif isinstance(message, TakerAnswer):
            self.leases.undelivered(to, message)
        else:
            self.redelivery.undelivered(to, message)
