"""One strong topic of a node: broadcast to its participants, with the guarantees of
`pubsub.topics.broadcast`.

A participant is known by its node's id, whatever its address. With a log it keeps its identity in the topic
over a crash: start the node with the same identity and the same file. `StrongTopics` makes these.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypedDict

from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.runtime import Runtime, RuntimeContext
from pubsub.reliable.receipts import MessageReceipt, News, Wait
from pubsub.reliable.runs import RUN_BYTES, Gap
from pubsub.reliable.tasks import Tasks
from pubsub.topics.aside import AsideMessages
from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.config import TopicConfig
from pubsub.topics.context import Outcome
from pubsub.topics.delivering import Delivery, Order, Participant, Semantics
from pubsub.topics.log import TopicLog
from pubsub.topics.messages import MOST_FILTER, Aside, Entry, Item
from pubsub.topics.state import NAME_BYTES, OVERHEAD
from pubsub.topics.views import StableView, TopicView

OnDeliver = Callable[[Delivery], "Awaitable[object] | Unfinished | None"]
"""Takes a message. A coroutine function is called for one message after another; where it gives False, the
application was not done with the message, and a log gives it again. With `Unfinished` the next may come."""
Done = Callable[[], None]
Audience = Sequence[PeerId] | Callable[[Participant], bool] | None

HEADERS = 1024
"""Bytes that may travel around a payload, beside the ids of its audience."""

ASIDE_HEADERS = 64
"""The same around a best-effort one, beside the topic's name."""

LINGER = 2.0
"""Seconds that leaving waits for those who can be reached to have what was published here."""

HEARD_SECONDS = 5.0
"""How long a changed filter waits for those who can be reached to hear of it."""

PUBLISHED_A_TURN = 32
"""Messages that a publisher may broadcast before others on the loop get a turn."""

MOST_EARLY = 1024
"""Messages to this participant alone that are kept until it has joined..."""

MOST_EARLY_BYTES = 4 * 1024 * 1024
"""...and about how many bytes of them."""

_log = logging.getLogger(__name__)


class Unfinished:
    """Returned by `on_deliver` for a message that the application will be done with later, while the next one
    may come: call `finish` then. Without that the message comes again after a crash, if there is a log.

    Several may have to be done with it: each of those counted by `one_more`, beside who calls `finish`."""

    def __init__(self) -> None:
        self._left = 1
        self._is_given_back = False
        self._done: Done | None = None

    def one_more(self) -> Callable[[bool], None]:
        """Somebody else gets the message, and calls what this gives: True when done with it."""
        self._left += 1
        return self.finish

    def finish(self, is_done: bool = True) -> None:
        self._left -= 1
        self._is_given_back = self._is_given_back or not is_done
        self._call()

    def then(self, done: Done) -> None:
        """Have this called when all are done with the message; never if one gave it back."""
        self._done = done
        self._call()

    def _call(self) -> None:
        if not self._left and not self._is_given_back and self._done is not None:
            done, self._done = self._done, None
            done()


class Handlers(TypedDict, total=False):
    """What else the application may be called for."""

    on_gap: Callable[[Gap], None] | None
    on_view_changed: Callable[[TopicView], None]
    on_stable: Callable[[StableView], None]
    on_direct: Callable[[PeerId, bytes], None]
    on_participant: Callable[[Participant], None]
    """For each that comes, or whose filter changes."""
    on_lacked: Callable[[int, bytes, PeerId], None]
    """With number and payload of an own message that was sent before it was known here that another one took
    part already, and the id of that one, to which it goes now."""


class StrongTopic:
    """One participant of one topic; made by `StrongTopics.join`, given back by `leave`.

    Handlers are called on the event loop and must not block; what they raise is logged and counted, and the
    message counts as delivered.
    """

    def __init__(
        self,
        topic: str,
        runtime: Runtime,
        on_deliver: OnDeliver,
        handlers: Handlers,
        config: TopicConfig,
        log: TopicLog,
        *,
        filter: str,
        order: Order,
        counts: dict[str, int],
        has_lost_right: Callable[[PeerId], bool],
        on_left: Callable[[StrongTopic], None],
    ) -> None:
        """`counts`: see `TopicBroadcast`. `has_lost_right`: see `StrongTopics`. `on_left` is called when this
        participant has left."""
        self.topic = topic
        self.joined_event = asyncio.Event()
        self.is_closed = False
        self.unanswered: dict[PeerId, None] = {}
        """Whom this participant has asked to join, and who have not answered, while no participant is known:
        they may take part all the same."""
        self._runtime = runtime
        self._on_deliver = on_deliver
        self._handlers = handlers
        self._config = config.broadcast
        self._log = log
        self._has_lost_right = has_lost_right
        self._on_left = on_left
        self._news = News()
        self._tasks = Tasks(f"strong topic {topic}", runtime.metrics)
        self._waiting: asyncio.Queue[tuple[Delivery, Done]] = asyncio.Queue()
        """Messages that wait for a handler that is a coroutine function."""
        self._worker: asyncio.Task[None] | None = None
        if inspect.iscoroutinefunction(on_deliver):
            self._worker = self._tasks.start("deliveries", self._deliver_in_turn(on_deliver))
        self._asides = self._aside_bytes = 0
        """Messages outside reliable broadcast that the application is not done with, and their bytes."""
        self._published = 0
        self._early: list[tuple[Contact, Aside]] = []
        self._dropped = runtime.metrics.family(
            "strong_dropped", "reason", "Messages of strong topics that were not taken"
        )
        self._errors = runtime.metrics.family(
            "strong_handler_errors", "handler", "Exceptions of the application's handlers"
        )
        self._make_protocol(config, log, filter, order, counts)

    def _make_protocol(
        self,
        config: TopicConfig,
        log: TopicLog,
        filter: str,
        order: Order,
        counts: dict[str, int],
    ) -> None:
        context = _TopicContext(self._runtime)
        self.core = TopicBroadcast(
            self.topic,
            context,
            config.broadcast,
            config.membership,
            self,
            log,
            boot=int(time.time() * 1000),
            run=entropy().randbytes(RUN_BYTES),
            filter=filter,
            order=order,
            counts=counts,
        )
        self._aside = AsideMessages(
            self.topic,
            context,
            config.broadcast,
            self.core.membership,
            self._take_aside,
            self._direct,
            self.room,
        )

    # Who takes part.

    @property
    def me(self) -> PeerId:
        return self.core.membership.me

    @property
    def run(self) -> bytes:
        """In which this participant's messages are numbered now."""
        return self.core.membership.run

    @property
    def view(self) -> TopicView:
        """Whom this participant believes reachable, itself included."""
        return self.core.membership.view

    @property
    def stable_view(self) -> StableView | None:
        """The last view that all its members have agreed upon; None before the first."""
        return self.core.membership.stable_view

    @property
    def is_stable(self) -> bool:
        """Whether nothing has changed since the last stable view."""
        return self.core.membership.is_stable

    @property
    def is_whole(self) -> bool:
        """Whether all who take part, as far as is known here, are in the view or taken for gone."""
        return self.core.membership.is_whole and not self.unanswered

    @property
    def participants(self) -> list[Participant]:
        """All that have subscribed, reachable or not, this one included, in the order of their ids."""
        entries = self.core.membership.participants
        return [_participant(entries[peer]) for peer in sorted(entries)]

    def is_done(self, publisher: PeerId, run: bytes, number: int) -> bool:
        """Whether no reliable message of a publisher's run up to this number is to come any more."""
        return self.core.is_done(publisher, run, number)

    def waiting_for_disk(self) -> list[Item]:
        """What has come, and is delivered as soon as it is on this node's disk."""
        return self.core.waiting_for_disk()

    # Publishing.

    async def broadcast(
        self, payload: bytes, *, semantics: Semantics = "reliable", to: Audience = None
    ) -> int:
        """Broadcast to all, or multicast; the number of the message. This participant gets it too, if
        addressed.

        `to` is a predicate, and leaves out the participants that it refuses, or some ids, and names the
        only ones. Waits while too much is not acknowledged, which is never longer than
        `stay_away_when_full` after somebody stopped to answer. Returns when the message is on its way, and
        on the disk if there is a log, however long that fails; `receipt` tells who has it.
        """
        number = await self.publish(payload, semantics=semantics, to=to)
        if semantics == "reliable":
            await self.receipt(number).wait("sent")
        return number

    async def publish(
        self, payload: bytes, *, semantics: Semantics = "reliable", to: Audience = None
    ) -> int:
        """The same without waiting for this node's disk: who is given the number knows that the message will
        be on its way, unless this node crashes first; who gives up before has published nothing."""
        only, named = self._audience(to)
        self._check_payload(payload, semantics, len(named))
        await self._wait_for_room(semantics)
        self._published += 1
        if self._published % PUBLISHED_A_TURN == 0:
            await asyncio.sleep(0)
            self._check_open()
        if semantics == "reliable":
            return self.core.publish(payload, only=only, named=named)
        return self._send_aside(payload, semantics, only, named)

    def receipt(self, number: int) -> MessageReceipt:
        """Of a reliable broadcast of this participant: "acked" when another participant has acknowledged it,
        "safe" when every one has."""

        def reached(wait: Wait) -> bool:
            if wait == "sent":
                return self.core.is_sent(number)
            is_there = self.core.is_settled if wait == "safe" else self.core.is_acked
            return is_there(number)

        return MessageReceipt(number, reached, self._next_news)

    async def send(self, to: PeerId, payload: bytes) -> bool:
        """Send to one participant alone; whether it has it. False if it crashed, left, or is not known."""
        self._check_payload(payload, "reliable")
        if to == self.me:
            asyncio.get_running_loop().call_soon(self._direct, to, payload)
            return True
        entry = self.core.membership.participants.get(to)
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(arrived: bool) -> None:
            if not outcome.done():
                outcome.set_result(arrived)

        while entry is not None and not self._aside.direct(entry.contact, payload, settle):
            await self._runtime.writable([entry.contact])
            self._check_open()
            await asyncio.sleep(0)
            entry = self.core.membership.participants.get(to)
        return await outcome if entry is not None else False

    def post(self, to: PeerId, payload: bytes, outcome: Outcome) -> None:
        """Send to one participant alone, as `send` does, without waiting; `outcome` is called once, and
        later, with whether the participant has it: False also where the channel is full."""
        self._check_payload(payload, "reliable")
        loop, entry = asyncio.get_running_loop(), self.core.membership.participants.get(to)
        if to == self.me:
            loop.call_soon(self._direct, to, payload)
            loop.call_soon(outcome, True)
        elif entry is None or not self._aside.direct(entry.contact, payload, outcome):
            loop.call_soon(outcome, False)

    async def change_filter(self, filter: str) -> None:
        """Want something else from now on. Publishers that have not heard of it go by the old one: this waits
        until all that can be reached have heard, for at most `HEARD_SECONDS`."""
        self._check_open()
        if len(filter) > MOST_FILTER:
            raise UsageError(f"the filter has {len(filter)} characters, {MOST_FILTER} is the most")
        self.core.membership.change_filter(filter)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_SECONDS):
                while not self.core.membership.is_filter_heard():
                    await self._next_news()

    def note(self, note: int) -> None:
        """Have the log, if there is one, remember a number, together with what is logged next."""
        self.core.note(note)

    @property
    def noted(self) -> int:
        """The number that was noted last, before a crash too; 0 if none was."""
        return self.core.noted

    @property
    def is_log_failing(self) -> bool:
        """Whether messages that have come wait for this node's disk, which refuses them now."""
        return self._log.is_failing

    def change_order(self, order: Order) -> None:
        """Deliver in another order from now on: "none" or "fifo"."""
        self.core.change_order(order)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError(f"this participant has left {self.topic}: join it again")
        self._tasks.check()

    def _check_payload(self, payload: bytes, semantics: str, named: int = 0) -> None:
        self._check_open()
        if semantics not in ("reliable", "stubborn", "best-effort"):
            raise UsageError(
                f'semantics is "reliable", "stubborn" or "best-effort", not {semantics!r}'
            )
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}")
        most = self._runtime.channels.config.max_message - HEADERS - NAME_BYTES * named
        if semantics == "best-effort":
            most = self._runtime.endpoint.max_body - len(self.topic.encode()) - ASIDE_HEADERS
        if len(payload) > most:
            raise UsageError(
                f"the payload has {len(payload)} bytes, and {most} is the most that {semantics} "
                "broadcast carries"
            )

    def _audience(self, to: Audience) -> tuple[bool, tuple[PeerId, ...]]:
        if to is None:
            return False, ()
        if callable(to):
            refused = (participant.id for participant in self.participants if not to(participant))
            return False, tuple(refused)
        known = self.core.membership.participants
        for peer in to:
            if peer not in known:
                raise UsageError(f"{peer!r} takes no part in {self.topic}: see participants")
        return True, tuple(dict.fromkeys(to))

    async def _wait_for_room(self, semantics: Semantics) -> None:
        if semantics == "best-effort":
            await self._runtime.endpoint.drained()
            return
        while (
            self.core.is_full
            if semantics == "reliable"
            else self._aside.is_full or self._is_crowded
        ):
            await self._next_news()
        await self._runtime.writable(self._others())
        self._check_open()

    def _send_aside(
        self, payload: bytes, semantics: Semantics, only: bool, named: tuple[PeerId, ...]
    ) -> int:
        to = [contact for contact in self._others() if (contact.id in named) == only]
        publish = self._aside.stubborn if semantics == "stubborn" else self._aside.best_effort
        number = publish(payload, to)
        if (self.me in named) == only:
            delivery = Delivery(
                self.me, self.run, number, payload, semantics, named if only else None
            )
            self._take_aside(delivery, anyway=semantics == "stubborn")
        return number

    def expel_those_without_right(self) -> None:
        """Take participants that have lost their right for such that have left: what they say is not heard
        any more, so that others would keep, and send them, everything."""
        if not self.is_closed:
            for peer in list(self.core.membership.participants):
                if self._has_lost_right(peer):
                    self.core.membership.expel(peer)

    def _others(self) -> list[Contact]:
        participants = self.core.membership.participants
        return [entry.contact for peer, entry in participants.items() if peer != self.me]

    # Leaving.

    async def leave(self) -> None:
        """Unsubscribe; what was published here has a moment to reach those who can be reached."""
        if self.is_closed:
            return
        with contextlib.suppress(TimeoutError, ClosedError):
            async with asyncio.timeout(LINGER):
                while not self.core.is_handed_on():
                    await self._next_news()
        if not self.is_closed:
            self.core.leave()
            self.abandon()
            self._on_left(self)
            await self._log.close()

    def abandon(self) -> None:
        """Stop as if crashed: nobody is told, and the log is still to be closed."""
        self.is_closed = True
        self.core.stop()
        self._aside.stop()
        if self._worker is not None:
            self._worker.cancel()
        self.room()

    # What the protocol says.

    def receive(self, sender: Contact, message: Any) -> None:
        """Take a message of this topic from the network."""
        self.unanswered.pop(sender.id, None)
        if isinstance(message, Aside):
            self._aside.receive(sender, message)
        else:
            self.core.receive(sender, message)
        self.room_if_waited_for()

    def keep_early(self, sender: Contact, message: Any) -> bool:
        """Keep a message to this participant alone that comes before it knows that it has joined; whether it
        is kept. Its sender, who knows already, will not send it again; of all others it will."""
        is_kept = (
            isinstance(message, Aside)
            and message.kind == "direct"
            and len(self._early) < MOST_EARLY
            and sum(len(early.payload) for _, early in self._early) < MOST_EARLY_BYTES
        )
        if is_kept:
            self._early.append((sender, message))
        return is_kept

    def joined(self) -> None:
        self.joined_event.set()
        asyncio.get_running_loop().call_soon(self._hear_early)

    def _hear_early(self) -> None:
        early, self._early = self._early, []
        for sender, message in early:
            if not self.is_closed:
                self.receive(sender, message)

    def deliver(self, item: Item, complete: int) -> None:
        assert item.payload is not None
        only = item.named if item.only else None
        delivery = Delivery(
            item.publisher,
            item.run,
            item.number,
            item.payload,
            "reliable",
            only,
            complete,
        )
        self._hand_over(delivery, partial(self._finished, item))

    def _hand_over(self, delivery: Delivery, done: Done) -> None:
        """Give a message to the handler, now or in its turn; `done` is called when that is done with it."""
        if self._worker is not None:
            self._waiting.put_nowait((delivery, done))
            return
        result = self._call("deliver", self._on_deliver, delivery)
        if isinstance(result, Unfinished):
            result.then(done)
        else:
            done()

    async def _deliver_in_turn(self, handler: Callable[[Delivery], Awaitable[object]]) -> None:
        """A handler that ends because what it awaited was cancelled has failed; the next message comes."""
        myself = asyncio.current_task()
        while True:
            delivery, done = await self._waiting.get()
            is_done = True
            try:
                is_done = await handler(delivery) is not False
            except (Exception, asyncio.CancelledError):
                if myself is None or myself.cancelling():
                    raise
                self._failed("deliver")
            if is_done:
                done()

    def _finished(self, item: Item) -> None:
        self.core.finished(item)
        self.room_if_waited_for()

    def gap(self, gap: Gap) -> None:
        self._call("gap", self._handlers.get("on_gap"), gap)

    def lacked(self, item: Item, by: PeerId) -> None:
        if item.publisher == self.me and item.run == self.run and item.payload is not None:
            self._call("lacked", self._handlers.get("on_lacked"), item.number, item.payload, by)

    def view_changed(self, view: TopicView) -> None:
        self._call("view_changed", self._handlers.get("on_view_changed"), view)

    def stable(self, view: StableView) -> None:
        self._call("stable", self._handlers.get("on_stable"), view)

    def participant_changed(self, before: Entry | None, now: Entry) -> None:
        self.unanswered.clear()
        self.room()
        self._call("participant", self._handlers.get("on_participant"), _participant(now))
        if not now.left and self._has_lost_right(now.id):
            # It has announced itself anew to others, who do not know yet.
            asyncio.get_running_loop().call_soon(self.expel_those_without_right)

    def room(self) -> None:
        """Wake all callers that wait for room, for a message to be settled or a filter to be heard, or to
        leave."""
        self._news.tell()

    def room_if_waited_for(self) -> None:
        if self._news:
            self.room()

    def _direct(self, sender: PeerId, payload: bytes) -> None:
        self._call("direct", self._handlers.get("on_direct"), sender, payload)

    def _call(self, name: str, handler: Callable[..., Any] | None, *arguments: Any) -> Any:
        if handler is None or self.is_closed:
            return None
        try:
            return handler(*arguments)
        except (Exception, asyncio.CancelledError):  # the latter is of something that it looked at
            self._failed(name)
            return None

    def _failed(self, name: str) -> None:
        self._errors.add(name)
        _log.exception("a %s handler of %s failed", name, self.topic)

    def _take_aside(self, delivery: Delivery, anyway: bool = False) -> bool:
        """Take a message outside reliable broadcast; False if too many wait already, unless `anyway`."""
        if self._is_crowded and not anyway:
            self._dropped.add(f"{delivery.semantics}_inbox_full".replace("-", "_"))
            return False
        size = OVERHEAD + len(delivery.payload)
        self._asides += 1
        self._aside_bytes += size

        def done() -> None:
            self._asides -= 1
            self._aside_bytes -= size
            self.room_if_waited_for()

        self._hand_over(delivery, done)
        return True

    @property
    def _is_crowded(self) -> bool:
        """Whether the application has as much before it as it may have."""
        config = self._config
        return (
            self.core.is_behind
            or self._asides >= config.unfinished_messages
            or self._aside_bytes >= config.unfinished_bytes
        )

    async def _next_news(self) -> None:
        self._check_open()
        await self._news.wait()
        self._check_open()


def _participant(entry: Entry) -> Participant:
    return Participant(entry.id, entry.contact, entry.filter)


class _TopicContext(RuntimeContext):
    """`TopicContext` on a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, "channel")
        self.send_datagram = runtime.send_datagram
        self.watch = runtime.failure.watch
        self.unwatch = runtime.failure.unwatch

    def try_send(self, to: Contact, message: object, outcome: Outcome) -> bool:
        try:
            return self._runtime.send(to, message, outcome)
        except UsageError as error:  # it exceeds a limit of the channel or the wire
            self._runtime.drop_unsendable(message, "too_large", error)
            return False
