"""All strong collections of one topic on one node: they share one participant of the topic.

Runs the cores of total order and one-of-n delivery on it. Total order runs in a topic as soon as one
participant asks for it; then every participant announces its clock, and every element goes to every
participant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from overlay.contact import PeerId
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.topic_name import TopicNameError, check_topic_name
from overlay.wire import WireError, encode
from pubsub.collections.config import CollectionConfig
from pubsub.collections.element import Element
from pubsub.collections.interest import Interest
from pubsub.collections.messages import (
    Addition,
    Announcement,
    Direct,
    Offer,
    Taken,
    decode_broadcast,
    decode_direct,
)
from pubsub.collections.one_of_n import Presence, Sharing, Taker
from pubsub.collections.outbox import Outbox
from pubsub.collections.strong import StrongCollection
from pubsub.collections.total_order import TotalOrder
from pubsub.collections.wishes import Wishes, either, parse_wishes
from pubsub.event import unpack_data
from pubsub.strong_topic import (
    Delivery,
    Gap,
    Participant,
    StableView,
    StrongTopic,
    TopicConfig,
    TopicView,
)

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections

INCARNATION_BITS = 32
"""Two starts of one participant are told apart by a number that is drawn."""


class StrongHub:
    """One node's part in one topic; made and given back by `NodeCollections`."""

    def __init__(self, topic: str, collections: NodeCollections, config: CollectionConfig) -> None:
        self.topic = topic
        self.config = config
        self.members: list[StrongCollection] = []
        """The collections that are open."""
        self.users = 0
        """What needs this participant: collections, and publishers of subtopics."""
        self.log: Any = None
        self._collections = collections
        self.incarnation = entropy().getrandbits(INCARNATION_BITS)
        self._wishes = Wishes(own=False)
        self._giving = asyncio.Lock()
        self._adding = asyncio.Lock()
        self._change = asyncio.Event()
        """Set whenever something may be so that an addition waits for."""
        self._is_left = False
        self._is_ordering = False
        self._outbox = Outbox(lambda: self._strong, self._undelivered, collections.tasks)
        self._spare_holders: tuple[PeerId, ...] = ()
        self._shared_view = b""
        """The stable view in which one-of-n delivery has begun to divide what those gone have left."""
        me = collections.node.id
        call_later = self._call_later = collections.node.attachment.runtime.call_later
        self._presence = Presence(
            config.one_of_n.gone_after,
            asyncio.get_running_loop().time,
            call_later,
            self._participants_changed,
        )
        self._sharing = Sharing(
            me,
            self.incarnation,
            self._outbox.send,
            self._offered,
            self._outbox.tell_taken,
            asyncio.get_running_loop().time,
            call_later,
            config.one_of_n,
            on_room=self._change.set,
            count=collections.drops.add,
        )
        self._order = TotalOrder(
            me,
            self._outbox.send,
            call_later,
            self._ordered,
            config.order,
            on_settled=self._change.set,
            count=collections.drops.add,
            is_done=lambda *upto: self._strong.is_done(*upto),
        )

    @property
    def _strong(self) -> StrongTopic:
        strong = self._collections.strong_topics.get(self.topic)
        if strong is None:
            raise ClosedError(f"this node takes no part in {self.topic}")
        return strong

    # Joining and leaving.

    async def join(self, log: Any) -> None:
        self.log = log
        self._wishes = self._combined_wishes()
        if self._wishes.ordered:
            self._order.begin_to_order()
        await self._collections.strong_topics.join(
            self.topic,
            self._delivered,
            filter=self._wishes.text,
            order=self._needed_order(),
            on_gap=self._gap,
            on_view_changed=self._view_changed,
            on_stable=self._stable,
            on_direct=self._direct,
            on_participant=self._participants_changed,
            on_lacked=self._lacked,
            log=log,
            config=TopicConfig(self.config.broadcast, self.config.membership),
        )
        self._participants_changed()

    async def leave(self) -> None:
        """Leave the topic; offers and answers have a moment to arrive, additions that wait are refused."""
        self._is_left = True
        self._change.set()
        self._order.close()
        self._sharing.close()
        self._presence.close()
        await self._outbox.linger()
        await self._strong.leave()
        await self._outbox.close()

    def _needed_order(self) -> Literal["none", "fifo"]:
        """Sets and bags take elements as they come; a total order is made of each publisher's."""
        if self._is_ordering or any(collection.order != "none" for collection in self.members):
            return "fifo"
        return "none"

    async def refresh(self) -> None:
        """Tell the others when the collections here want something else than before."""
        self._strong.change_order(self._needed_order())
        wishes = self._combined_wishes()
        if wishes != self._wishes:
            self._wishes = wishes
            if wishes.ordered:
                self._order.begin_to_order()
            await self._strong.change_filter(wishes.text)
            self._participants_changed()

    def _combined_wishes(self) -> Wishes:
        all_wishes = [collection.wishes for collection in self.members]
        watching = [w for w in all_wishes if w.own or w.below]
        taking = [w for w in all_wishes if w.takes]
        return Wishes(
            own=any(w.own for w in all_wishes),
            below=any(w.below for w in all_wishes),
            filter=either([w.filter for w in watching]),
            ordered=any(w.ordered for w in all_wishes),
            takes=bool(taking),
            take_filter=either([w.take_filter for w in taking]),
            shared=self._wishes.shared or bool(taking),
            incarnation=self.incarnation,
        )

    # Publishing.

    async def add(self, topic: str, data: Any, packed: bytes) -> None:
        """Publish an element of this topic or of a subtopic to all who want it. Waits while too many elements
        are to be taken; `ClosedError` when the topic is left before."""
        if topic == self.topic:
            async with self._giving:
                await self._until(lambda: not self._sharing.is_full)
                await self._give(topic, data, packed)
        else:
            async with self._adding:
                if self._is_ordering or self._is_wanted(False, data):
                    await self._broadcast(topic, data, packed)

    async def _give(self, topic: str, data: Any, packed: bytes) -> None:
        async with self._adding:
            number = await self._broadcast(topic, data, packed)
            gift = (self._strong.me, self.incarnation, number)
            self._sharing.added(gift, topic, packed, data)

    async def _broadcast(self, topic: str, data: Any, packed: bytes) -> int:
        await self._until(lambda: not self._is_ordering or self._order.is_settled)
        is_own, to_all = topic == self.topic, self._is_ordering

        def wants(participant: Participant) -> bool:
            if is_own and participant.id in self._spare_holders:
                return True
            return parse_wishes(participant.filter).wants(is_own, data)

        clock = self._order.stamp()
        payload = encode(Addition(topic, clock, self.incarnation, packed))
        try:
            number = await self._strong.broadcast(payload, to=None if to_all else wants)
        except BaseException:
            self._order.unstamp(clock)
            raise
        if not to_all:
            self._order.unstamp(clock)  # it may not be among those that come here
        return number

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not self._is_left and not is_so():
            self._change.clear()
            await self._change.wait()
        if self._is_left:
            raise ClosedError(f"this node has left {self.topic}")

    def _is_wanted(self, is_own: bool, data: Any) -> bool:
        return any(
            parse_wishes(participant.filter).wants(is_own, data)
            for participant in self._strong.participants
        )

    # What comes from the topic.

    def _delivered(self, delivery: Delivery) -> Awaitable[None] | None:
        try:
            addition = decode_broadcast(delivery.payload)
            if isinstance(addition, Taken):
                for gift in addition.gifts:
                    self._sharing.taken(gift)
                return None
            data = unpack_data(addition.data)
            check_topic_name(addition.topic)
        except (WireError, TopicNameError) as error:
            self._collections.drops.add(getattr(error, "reason", "malformed_topic"))
            return None
        element = Element(data, addition.topic, delivery.publisher)
        for collection in self.members:
            if collection.order != "total":
                collection.offer(element)
        source = (delivery.publisher, delivery.life)
        if self._wishes.takes and addition.topic == self.topic:
            gift = (delivery.publisher, addition.incarnation, delivery.number)
            self._sharing.received(gift, addition.topic, addition.data)
        self._order.receive(
            source, delivery.number, addition.clock, element, complete=delivery.complete
        )
        return None if self._is_ready() else self._until_ready()

    def _lacked(self, number: int, payload: bytes, by: PeerId) -> None:
        """An addition of this node goes to one that took part when it was made, and was not known here: if
        that one takes, it asked in time."""
        addition = decode_broadcast(payload)
        takes = any(p.id == by and parse_wishes(p.filter).takes for p in self._strong.participants)
        if takes and isinstance(addition, Addition) and addition.topic == self.topic:
            gift = (self._strong.me, addition.incarnation, number)
            data = unpack_data(addition.data)
            self._sharing.missed(gift, addition.topic, addition.data, data)

    def _ordered(self, element: Element) -> None:
        for collection in self.members:
            if collection.order == "total":
                collection.offer(element)

    def _is_ready(self) -> bool:
        """Whether the next element may come: there is room, and with a log, nothing is left undone."""
        return self._busy() is None

    async def _until_ready(self) -> None:
        while (busy := self._busy()) is not None:
            await busy.changed()

    def _busy(self) -> Interest | None:
        """An interest that elements have to wait for; not one that takes, which is offered no more than it
        may have in hand."""
        for interest in (i for member in self.members for i in member.interests if not i.takes):
            if not (interest.is_idle if self.log is not None else interest.has_room):
                return interest
        return None

    def _gap(self, gap: Gap) -> None:
        self._order.skip(gap.publisher, gap.life, gap.last)
        for collection in self.members:
            if collection.on_gap is not None:
                collection.on_gap(gap)

    # Participants and views.

    def _participants_changed(self, *_: object) -> None:
        strong = self._collections.strong_topics.get(self.topic)
        if strong is None:
            return  # it tells while it is being made
        members = strong.view.members
        wishes = {peer.id: parse_wishes(peer.filter) for peer in strong.participants}
        takers = [
            Taker(peer, wished.take_filter)
            for peer, wished in wishes.items()
            if wished.takes and peer in members
        ]
        is_asked = any(wished.takes for wished in wishes.values())
        incarnations = {peer: wished.incarnation for peer, wished in wishes.items()}
        present = self._presence.update(members, incarnations)
        self._sharing.participants_are(present, takers, is_asked)
        others = [taker.id for taker in takers if taker.id != strong.me]
        self._spare_holders = tuple(others[: self._sharing.config.spares])
        if strong.is_stable and strong.stable_view is not None and is_asked:
            self._share_later(strong.stable_view)
        if not self._is_ordering and any(wished.ordered for wished in wishes.values()):
            self._begin_ordering()

    def _begin_ordering(self) -> None:
        """Take part in the total order from now on, in whatever view this participant is."""
        self._is_ordering = True
        self._strong.change_order("fifo")
        if self._strong.is_stable and self._strong.stable_view is not None:
            self._stable(self._strong.stable_view)

    def _view_changed(self, view: TopicView) -> None:
        if self._is_ordering:
            self._order.unstable()
        self._sharing.unstable()
        self._shared_view = b""
        self._participants_changed()

    def _stable(self, view: StableView) -> None:
        if self._is_ordering:
            self._order.stable(view.id, view.members)
        self._participants_changed()

    def _share_later(self, view: StableView) -> None:
        """Once in a stable view in which somebody takes, tell the others of gifts of those gone, when those
        who are not in it have been out for long enough."""
        if view.id != self._shared_view:
            self._shared_view = view.id
            self._call_later(self.config.one_of_n.gone_after, lambda: self._share(view))

    def _share(self, view: StableView) -> None:
        if view.id == self._shared_view and not self._is_left:
            sharing = {
                peer.id: parse_wishes(peer.filter).incarnation
                for peer in self._strong.participants
                if peer.filter and peer.id in view.members
            }
            self._sharing.stable(view.id, sharing)

    # Point to point.

    def _direct(self, sender: PeerId, payload: bytes) -> None:
        try:
            message = decode_direct(payload)
        except WireError as error:
            self._collections.drops.add(error.reason)
            return
        if isinstance(message, Announcement):
            if not self._is_ordering:
                self._begin_ordering()
            self._order.announced(sender, message)
        else:
            self._sharing.direct(sender, message)

    def _undelivered(self, to: PeerId, message: Direct) -> None:
        if isinstance(message, Announcement):
            self._order.undelivered(to)
        else:
            self._sharing.undelivered(to, message)

    def _offered(self, offer: Offer) -> None:
        """An element for one of the interests here that take."""

        def finish(is_done: bool) -> None:
            hands = self._sharing.hands
            (hands.done if is_done else hands.give_back)(offer.gift)

        try:
            element = Element(unpack_data(offer.data), offer.topic, offer.gift[0])
        except WireError as error:
            self._collections.drops.add(error.reason)
            finish(True)
            return
        taking = [
            m for m in self.members if any(i.takes and i.matches(element) for i in m.interests)
        ]
        if taking:
            taking[0].take(element, finish)
        else:
            finish(False)
