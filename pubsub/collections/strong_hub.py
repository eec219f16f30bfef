"""All strong collections of one topic on one node: they share one participant of the topic.

Runs the cores of total order and one-of-n delivery on it. Total order runs in a topic as soon as one
participant asks for it; then every participant announces its clock, and every element goes to every
participant. What they send beside additions goes through the `HubOutbox`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from overlay.contact import PeerId
from overlay.context import CallLater
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.topic_name import TopicNameError, check_topic_name
from overlay.wire import WireError, encode
from pubsub.collections.config import CollectionConfig
from pubsub.collections.content import Element
from pubsub.collections.messages import (
    Addition,
    Announcement,
    Direct,
    ElementId,
    ElementOffer,
    Holdings,
    Taken,
    decode_broadcast,
    decode_direct,
)
from pubsub.collections.one_of_n import Presence, Sharing, Taker
from pubsub.collections.strong import StrongCollection
from pubsub.collections.total_order import Source, TotalOrder
from pubsub.collections.wanted import Wanted, either, parse_wanted
from pubsub.data import unpack_data
from pubsub.reliable.receipts import MessageReceipt, News
from pubsub.reliable.runs import RUN_BYTES
from pubsub.reliable.tasks import Tasks
from pubsub.topics import (
    Delivery,
    Gap,
    Participant,
    Semantics,
    StableView,
    StrongTopic,
    TopicConfig,
    TopicView,
    Unfinished,
)
from pubsub.validation import REFUSED

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections


_log = logging.getLogger(__name__)

LINGER_SECONDS = 1.0
"""How long offers and answers have to arrive when the topic is left."""

TELL_TAKEN_SECONDS = 0.05
"""For which elements that are taken are collected before the others are told."""

ELEMENTS_A_MESSAGE = 1000

TRY_AGAIN_SECONDS = 0.5
"""After which it is told that a message did not reach a participant, so that it may be sent again."""


class HubOutbox:
    """What the collections of one node send in a strong topic beside additions."""

    def __init__(
        self,
        strong: Callable[[], StrongTopic],
        undelivered: Callable[[PeerId, Direct], None],
        call_later: CallLater,
        tasks: Tasks,
    ) -> None:
        """`strong` gives the topic, or raises `ClosedError`; `undelivered` is told, a little later, what may
        not have arrived."""
        self._strong = strong
        self._undelivered = undelivered
        self._call_later = call_later
        self._tasks = tasks
        self._urgent = 0
        """Offers, answers, and what is told to be taken, on their way."""
        self._arrival = News()
        self._taken: list[ElementId] = []
        """Taken elements of which the others are still to be told."""
        self._telling: dict[asyncio.Task[None], None] = {}

    def send(self, to: PeerId, message: Direct) -> None:
        is_urgent = not isinstance(message, Announcement | Holdings)

        def outcome(arrived: bool) -> None:
            self._ended(is_urgent)
            if not arrived:
                self._call_later(TRY_AGAIN_SECONDS, lambda: self._undelivered(to, message))

        with contextlib.suppress(ClosedError):
            self._strong().post(to, encode(message), outcome)
            self._urgent += is_urgent

    def tell_taken(self, element_id: ElementId) -> None:
        """Broadcast that an element is taken, to those who may have a copy."""
        self._taken.append(element_id)
        if len(self._taken) == 1:
            self._urgent += 1
            task = self._tasks.start("what is taken", self._tell_all_taken(), vital=False)
            self._telling[task] = None
            task.add_done_callback(lambda done: self._telling.pop(done, None))

    async def linger(self) -> None:
        """Give offers, answers and what is taken a moment to arrive."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while self._urgent:
                    await self._arrival.wait()

    async def close(self) -> None:
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)

    def _ended(self, is_urgent: bool) -> None:
        self._urgent -= is_urgent
        self._arrival.tell()

    async def _tell_all_taken(self) -> None:
        """Several elements share a message."""
        await asyncio.sleep(TELL_TAKEN_SECONDS)
        element_ids, self._taken = self._taken, []
        publishers = {element_id[0] for element_id in element_ids}

        def concerned(participant: Participant) -> bool:
            # One that does not ask any more must hear it too, or it would hand its copies on one day.
            return participant.id in publishers or parse_wanted(participant.filter).shared

        with contextlib.suppress(ClosedError):
            for begin in range(0, len(element_ids), ELEMENTS_A_MESSAGE):
                message = Taken(tuple(element_ids[begin : begin + ELEMENTS_A_MESSAGE]))
                await self._strong().broadcast(encode(message), to=concerned)
        self._ended(is_urgent=True)


async def _never() -> None:
    raise UsageError('a stubborn or best-effort element is known to be "sent", and no more')


def _read(payload: bytes, publisher: PeerId) -> tuple[Addition, Element] | Taken:
    """What a participant has broadcast; `WireError` or `TopicNameError` for anything else."""
    message = decode_broadcast(payload)
    if isinstance(message, Taken):
        return message
    check_topic_name(message.topic)
    return message, Element(unpack_data(message.data), message.topic, publisher)


INCARNATION_BITS = 32
"""Two starts of one participant are told apart by a number that is drawn."""


class StrongHub:
    """One node's part in one topic; made and given back by `NodeCollections`."""

    def __init__(self, topic: str, collections: NodeCollections, config: CollectionConfig) -> None:
        self.topic = topic
        self.config = config
        self.members: list[StrongCollection] = []
        """The collections that are open."""
        self.is_above = False
        """This node publishes in the topic what is added to subtopics, until the node closes."""
        self.log: Any = None
        self._collections = collections
        self.incarnation = entropy().getrandbits(INCARNATION_BITS)
        self._wanted = Wanted(own=False)
        self._giving = asyncio.Lock()
        self._adding = asyncio.Lock()
        self._change = News()
        """Told whenever something may be so that an addition waits for."""
        self._is_left = False
        self._is_ordering = False
        self._spare_holders: tuple[PeerId, ...] = ()
        self._shared_view = b""
        """The stable view in which one-of-n delivery has begun to divide what those gone have left."""
        me = collections.node.id
        call_later = self._call_later = collections.node.attachment.runtime.call_later
        self._outbox = HubOutbox(
            lambda: self._strong, self._undelivered, call_later, collections.tasks
        )
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
            on_room=self._change.tell,
            count=collections.drops.add,
        )
        self._order = TotalOrder(
            me,
            self._outbox.send,
            call_later,
            self._ordered,
            config.order,
            on_settled=self._change.tell,
            count=collections.drops.add,
            is_done=lambda *upto: self._strong.is_done(*upto),
            is_whole=self._is_whole,
            is_held_up=lambda: self._strong.is_log_failing,
            coming=self._coming,
        )

    @property
    def _strong(self) -> StrongTopic:
        strong = self._collections.strong_topics.get(self.topic)
        if strong is None:
            raise ClosedError(f"this node takes no part in {self.topic}")
        return strong

    def _is_whole(self) -> bool:
        strong = self._collections.strong_topics.get(self.topic)
        return strong is not None and strong.is_whole

    def _coming(self) -> dict[Source, int]:
        """The additions that have come and wait for this node's disk: the last one of each source."""
        last: dict[Source, int] = {}
        for item in self._strong.waiting_for_disk():
            with contextlib.suppress(WireError, TopicNameError):
                if not isinstance(_read(item.payload or b"", item.publisher), Taken):
                    source = (item.publisher, item.run)
                    last[source] = max(item.number, last.get(source, 0))
        return last

    # Joining and leaving.

    async def join(self, log: Any) -> None:
        self.log = log
        self._wanted = self._combined_wanted()
        if self._wanted.ordered:
            self._order.begin_to_order()
        await self._collections.strong_topics.join(
            self.topic,
            self._delivered,
            filter=self._wanted.text,
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
        self._order.clock = max(self._order.clock, self._strong.noted)
        self._participants_changed()

    async def leave(self) -> None:
        """Leave the topic; offers and answers have a moment to arrive, additions that wait are refused."""
        self._is_left = True
        self._change.tell()
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
        wanted = self._combined_wanted()
        if wanted != self._wanted:
            self._wanted = wanted
            if wanted.ordered:
                self._order.begin_to_order()
            await self._strong.change_filter(wanted.text)
            self._participants_changed()

    def refresh_soon(self) -> None:
        """The same for one that was given up, and cannot wait."""
        self._collections.tasks.start(
            "what is wanted no more", self._refresh_if_open(), vital=False
        )

    async def _refresh_if_open(self) -> None:
        with contextlib.suppress(ClosedError):
            await self.refresh()

    def _combined_wanted(self) -> Wanted:
        interests = [one for collection in self.members for one in collection.interests]
        wanted = [one for collection in self.members for one in collection.wanted]
        taking = [interest.filter for interest in interests if interest.takes]
        return Wanted(
            own=bool(wanted),
            below=any(interest.below for interest in interests),
            filter=either(wanted),
            ordered=any(collection.order == "total" for collection in self.members),
            takes=bool(taking),
            take_filter=either(taking),
            shared=self._wanted.shared or bool(taking),
            incarnation=self.incarnation,
        )

    # Publishing.

    async def add(self, topic: str, data: Any, packed: bytes) -> MessageReceipt:
        """Publish an element of this topic to all who want it. Waits while too many elements are to be taken;
        `ClosedError` when the topic is left before."""
        async with self._giving:
            await self._until(lambda: not self._sharing.is_full)
            async with self._adding:
                number = await self._publish(topic, data, packed)
                giving = self._give_when_sent(number, topic, data, packed)
                if self.log is None:
                    await giving
                else:  # this node's disk may fail for longer than the caller waits
                    tasks = self._collections.tasks
                    await asyncio.shield(tasks.start("what is to be taken", giving, vital=False))
                receipt = self._strong.receipt(number)
                await receipt.wait("sent")
        return receipt

    async def _give_when_sent(self, number: int, topic: str, data: Any, packed: bytes) -> None:
        with contextlib.suppress(ClosedError):
            await self._strong.receipt(number).wait("sent")
            element_id = (self._strong.me, self.incarnation, number)
            self._sharing.added(element_id, topic, packed, data)

    async def add_from_below(self, topic: str, data: Any, packed: bytes) -> None:
        """Publish an element of a subtopic to all who want it."""
        async with self._adding:
            if self._is_ordering or self._is_wanted(False, data):
                number = await self._publish(topic, data, packed)
                await self._strong.receipt(number).wait("sent")

    async def add_aside(self, data: Any, packed: bytes, semantics: Semantics) -> MessageReceipt:
        """Publish an element outside reliable broadcast, so without an order or one-of-n delivery."""

        def wants(participant: Participant) -> bool:
            return parse_wanted(participant.filter).wants(True, data)

        payload = encode(Addition(self.topic, 0, self.incarnation, packed))
        number = await self._strong.broadcast(payload, semantics=semantics, to=wants)
        return MessageReceipt(number, lambda wait: wait == "sent", _never)

    async def _publish(self, topic: str, data: Any, packed: bytes) -> int:
        """The number of the addition. One that is given up later, while this node's disk fails, is sent all
        the same when that works again: it keeps its clock until then, and goes to one of those who take."""
        await self._until(lambda: not self._is_ordering or self._order.is_settled)
        is_own, to_all = topic == self.topic, self._is_ordering

        def wants(participant: Participant) -> bool:
            if is_own and participant.id in self._spare_holders:
                return True
            return parse_wanted(participant.filter).wants(is_own, data)

        clock = self._order.stamp()
        if self.log is not None:
            self._strong.note(max(clock, self._strong.noted))
        payload = encode(Addition(topic, clock, self.incarnation, packed))
        try:
            number = await self._strong.publish(payload, to=None if to_all else wants)
        except BaseException:
            self._order.unstamp(clock)
            raise
        if not to_all:
            self._order.unstamp(clock)  # it may not be among those that come here
        return number

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not self._is_left and not is_so():
            await self._change.wait()
        if self._is_left:
            raise ClosedError(f"this node has left {self.topic}")

    def _is_wanted(self, is_own: bool, data: Any) -> bool:
        return any(
            parse_wanted(participant.filter).wants(is_own, data)
            for participant in self._strong.participants
        )

    # What comes from the topic.

    def _delivered(self, delivery: Delivery) -> Unfinished | None:
        try:
            message = _read(delivery.payload, delivery.publisher)
        except (WireError, TopicNameError) as error:
            self._collections.drops.add(getattr(error, "reason", "malformed_topic"))
            return None
        if isinstance(message, Taken):
            for element_id in message.element_ids:
                self._sharing.taken(element_id)
            return None
        addition, element = message
        is_accepted = self._accepts(element, delivery.run, delivery.number)
        if delivery.semantics == "reliable":
            return self._take(delivery, addition, element, is_accepted)
        for collection in self.members if is_accepted else ():
            if collection.order == "none":
                collection.offer(element)
        return self._when_room(Unfinished())

    def _take(
        self, delivery: Delivery, addition: Addition, element: Element, is_accepted: bool
    ) -> Unfinished:
        """Give an element to the collections that take it as it comes, and to the cores."""
        unfinished = Unfinished()
        logged = unfinished if self.log is not None else None
        for collection in self.members if is_accepted else ():
            if collection.order != "total":
                collection.offer(element, logged)
        if self._wanted.takes and addition.topic == self.topic and is_accepted:
            element_id = (delivery.publisher, addition.incarnation, delivery.number)
            self._sharing.received(element_id, addition.topic, addition.data)
        ordered = logged if self._order.orders else None
        is_own = delivery.publisher == self._strong.me
        is_taken = self._order.receive(
            (delivery.publisher, delivery.run),
            delivery.number,
            addition.clock,
            (element if is_accepted else None, addition.clock, ordered),
            complete=delivery.complete,
            is_restored=is_own and addition.incarnation != self.incarnation,
        )
        if logged is None:
            return self._when_room(unfinished)
        if ordered is None or not is_taken:
            unfinished.finish()  # else when it has its place in the order
        return unfinished

    def _when_room(self, unfinished: Unfinished) -> Unfinished:
        """Be done with a message when all interests have room for more; those that take are offered no more
        than they may have in hand."""
        for interest in (i for member in self.members for i in member.interests if not i.takes):
            if not interest.has_room:
                interest.when_room(unfinished.one_more())
        unfinished.finish()
        return unfinished

    def _accepts(self, element: Element, run: bytes, number: int) -> bool:
        """Whether the node's validators accept an element of another node; refusals are counted."""
        node = self._collections.node
        if element.publisher == node.id or node.validation.accepts(
            element.topic, element.publisher, run, number, element.data
        ):
            return True
        self._collections.drops.add(REFUSED)
        return False

    def _lacked(self, number: int, payload: bytes, by: PeerId) -> None:
        """An addition of this node goes to one that took part when it was made, and was not known here: if
        that one takes, it asked in time."""
        addition = decode_broadcast(payload)
        takes = any(p.id == by and parse_wanted(p.filter).takes for p in self._strong.participants)
        if takes and isinstance(addition, Addition) and addition.topic == self.topic:
            element_id = (self._strong.me, addition.incarnation, number)
            data = unpack_data(addition.data)
            self._sharing.missed(element_id, addition.topic, addition.data, data)

    def _ordered(self, item: tuple[Element | None, int, Unfinished | None]) -> None:
        element, clock, unfinished = item
        for collection in self.members:
            if collection.order == "total" and element is not None:
                collection.offer(element, unfinished)
        if unfinished is not None:
            self._strong.note(max(clock, self._strong.noted))
            unfinished.finish()

    def _gap(self, gap: Gap) -> None:
        if gap.publisher is not None:
            self._order.skip(gap.publisher, gap.run, gap.last)
        for collection in self.members:
            for interest in collection.interests:
                interest.tell_gap(gap)
            if collection.on_gap is not None:
                try:
                    collection.on_gap(gap)
                except Exception:
                    collection._count_error("on_gap")
                    _log.exception("on_gap of %s failed", self.topic)

    # Participants and views.

    def _participants_changed(self, *_: object) -> None:
        strong = self._collections.strong_topics.get(self.topic)
        if strong is None:
            return  # it tells while it is being made
        members = strong.view.members
        wanted = {peer.id: parse_wanted(peer.filter) for peer in strong.participants}
        takers = [
            Taker(peer, wants_of.take_filter)
            for peer, wants_of in wanted.items()
            if wants_of.takes and peer in members
        ]
        is_asked = any(wants_of.takes for wants_of in wanted.values())
        incarnations = {peer: wants_of.incarnation for peer, wants_of in wanted.items()}
        present = self._presence.update(members, incarnations)
        self._sharing.participants_are(present, takers, is_asked)
        others = [taker.id for taker in takers if taker.id != strong.me]
        self._spare_holders = tuple(others[: self._sharing.config.spares])
        if strong.is_stable and strong.stable_view is not None and is_asked:
            self._share_later(strong.stable_view)
        if not self._is_ordering and any(wants_of.ordered for wants_of in wanted.values()):
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
        """Once in a stable view in which somebody takes, tell the others of elements of those gone, when
        those who are not in it have been out for long enough."""
        if view.id != self._shared_view:
            self._shared_view = view.id
            self._call_later(self.config.one_of_n.gone_after, lambda: self._share(view))

    def _share(self, view: StableView) -> None:
        if view.id == self._shared_view and not self._is_left:
            sharing = {
                peer.id: parse_wanted(peer.filter).incarnation
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
        if self._is_left:
            return
        if isinstance(message, Announcement):
            self._order.undelivered(to)
        else:
            self._sharing.undelivered(to, message)

    def _offered(self, offer: ElementOffer) -> None:
        """An element for one of the interests here that take."""

        def finish(is_done: bool) -> None:
            leases = self._sharing.leases
            (leases.done if is_done else leases.give_back)(offer.element_id)

        try:
            element = Element(unpack_data(offer.data), offer.topic, offer.element_id[0])
        except WireError as error:
            self._collections.drops.add(error.reason)
            finish(True)
            return
        _, incarnation, number = offer.element_id
        taking = [
            m for m in self.members if any(i.takes and i.matches(element) for i in m.interests)
        ]
        if taking and self._accepts(element, incarnation.to_bytes(RUN_BYTES, "big"), number):
            taking[0].take(element, finish)
        else:
            finish(False)
