"""All strong collections of one topic on one node: they share one participant of the topic.

Runs the cores of total order and one-of-n delivery on it. Total order runs in a topic as soon as one
participant asks for it; then every participant announces its clock, and every element goes to every
participant.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from overlay.contact import PeerId
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.topic_name import TopicNameError, check_topic_name
from overlay.wire import WireError, encode
from pubsub.collections.element import Element
from pubsub.collections.messages import (
    Addition,
    Announcement,
    Answer,
    Direct,
    Offer,
    decode_addition,
    decode_direct,
)
from pubsub.collections.one_of_n import Giver, Hands, Held, Taker
from pubsub.collections.strong import StrongCollection
from pubsub.collections.total_order import TotalOrder
from pubsub.collections.wishes import Wishes, either, parse_wishes
from pubsub.event import unpack_data
from pubsub.strong_topic import Delivery, Gap, Participant, StableView, StrongTopic, TopicView

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections

LINGER_SECONDS = 1.0
"""How long offers and answers have to arrive when the topic is left."""

TRY_AGAIN_SECONDS = 0.5
"""After which a message that did not reach a participant in the view is sent again."""


class StrongHub:
    """One node's part in one topic; made and given back by `NodeCollections`."""

    def __init__(self, topic: str, collections: NodeCollections) -> None:
        self.topic = topic
        self.members: list[StrongCollection] = []
        """The collections that are open."""
        self.users = 0
        """What needs this participant: collections, and publishers of subtopics."""
        self.log: Any = None
        self._collections = collections
        self._wishes = Wishes(own=False)
        self._adding = asyncio.Lock()
        self._settled = asyncio.Event()
        self._is_ordering = False
        self._tasks: dict[asyncio.Task[None], Direct] = {}
        """Messages on their way."""
        self._hands = Hands(self._send, self._offered)
        self._giver = Giver(entropy().getrandbits(62), self._send, count=collections.drops.add)
        self._order = TotalOrder(
            collections.node.id,
            self._send,
            collections.node.attachment.runtime.call_later,
            self._ordered,
            on_settled=self._settled.set,
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
            order="fifo",
            on_gap=self._gap,
            on_view_changed=self._view_changed,
            on_stable=self._stable,
            on_direct=self._direct,
            on_participant=self._participants_changed,
            log=log,
        )
        self._participants_changed()

    async def leave(self) -> None:
        """Leave the topic; offers and answers have a moment to arrive."""
        self._order.close()
        urgent = [
            task for task, message in self._tasks.items() if isinstance(message, Offer | Answer)
        ]
        if urgent:
            await asyncio.wait(urgent, timeout=LINGER_SECONDS)
        await self._strong.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def refresh(self) -> None:
        """Tell the others when the collections here want something else than before."""
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
        )

    # Publishing.

    async def add(self, topic: str, data: Any, packed: bytes) -> None:
        """Publish an element of this topic or of a subtopic to all who want it."""
        is_own = topic == self.topic
        async with self._adding:
            if self._is_ordering or is_own or self._is_wanted(is_own, data):
                await self._broadcast(topic, data, packed)
        if is_own:
            self._giver.add(topic, packed, data)

    async def _broadcast(self, topic: str, data: Any, packed: bytes) -> None:
        while self._is_ordering and not self._order.is_settled:
            self._settled.clear()
            await self._settled.wait()
        is_own, to_all = topic == self.topic, self._is_ordering

        def wants(participant: Participant) -> bool:
            return parse_wishes(participant.filter).wants(is_own, data)

        clock = self._order.stamp()
        payload = encode(Addition(topic, clock, packed))
        try:
            await self._strong.broadcast(payload, to=None if to_all else wants)
        except BaseException:
            self._order.unstamp(clock)
            raise
        if not to_all:
            self._order.unstamp(clock)  # it may not be among those that come here

    def _is_wanted(self, is_own: bool, data: Any) -> bool:
        return any(
            parse_wishes(participant.filter).wants(is_own, data)
            for participant in self._strong.participants
        )

    # What comes from the topic.

    def _delivered(self, delivery: Delivery) -> Awaitable[None] | None:
        try:
            addition = decode_addition(delivery.payload)
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
        self._order.receive(source, delivery.number, addition.clock, element)
        return None if self._is_ready() else self._until_ready()

    def _ordered(self, element: Element) -> None:
        for collection in self.members:
            if collection.order == "total":
                collection.offer(element)

    def _is_ready(self) -> bool:
        """Whether the next element may come: there is room, and with a log, nothing is left undone."""
        interests = (interest for member in self.members for interest in member.interests)
        return all(i.is_idle if self.log is not None else i.has_room for i in interests)

    async def _until_ready(self) -> None:
        while not self._is_ready():
            busy = [
                interest
                for member in self.members
                for interest in member.interests
                if not (interest.is_idle if self.log is not None else interest.has_room)
            ]
            await busy[0].changed()

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
        self._giver.takers_are(takers, any(wished.takes for wished in wishes.values()))
        self._hands.present_are(members)
        if not self._is_ordering and any(wished.ordered for wished in wishes.values()):
            self._begin_ordering()

    def _begin_ordering(self) -> None:
        """Take part in the total order from now on, in whatever view this participant is."""
        self._is_ordering = True
        if self._strong.is_stable and self._strong.stable_view is not None:
            self._stable(self._strong.stable_view)

    def _view_changed(self, view: TopicView) -> None:
        if self._is_ordering:
            self._order.unstable()
        self._participants_changed()

    def _stable(self, view: StableView) -> None:
        if self._is_ordering:
            self._order.stable(view.id, view.members)

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
        elif isinstance(message, Offer):
            self._hands.offered(sender, message)
        else:
            self._giver.answered(sender, message)

    def _send(self, to: PeerId, message: Direct) -> None:
        task = asyncio.ensure_future(self._try_to_send(to, message))
        self._tasks[task] = message
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _try_to_send(self, to: PeerId, message: Direct) -> None:
        with contextlib.suppress(ClosedError):
            if not await self._strong.send(to, encode(message)):
                await asyncio.sleep(TRY_AGAIN_SECONDS)
                self._undelivered(to, message)

    def _undelivered(self, to: PeerId, message: Direct) -> None:
        if isinstance(message, Announcement):
            self._order.undelivered(to)
        elif isinstance(message, Offer):
            self._giver.undelivered(to, message)
        elif isinstance(message, Answer):
            self._hands.undelivered(to, message)

    def _offered(self, held: Held, offer: Offer) -> None:
        """An element for one of the interests here that take."""

        def finish(is_done: bool) -> None:
            (self._hands.done if is_done else self._hands.give_back)(held)

        try:
            element = Element(unpack_data(offer.data), offer.topic, held[0])
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
