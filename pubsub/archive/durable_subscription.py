"""A durable subscription: it gets what it missed, however long it was away.

    async with node.subscribe("/soccer", durable="scores", since="beginning") as events:
        async for event in events:
            ...                                # done with it when the next one is asked for

The archive keeps everything for the name `scores` from its first registration on, until it has been done
with: by `event.ack()`, by asking for the next event, or by leaving the block without an exception. A
subscription that is closed in another way gives the event in hand back.

`delivery="ordered"` (the default): each event once, in each publisher's order, when the archive has noted
that it is delivered. Should this process crash, the events that it had not asked on from come again, and
are marked `redelivered`; unless the application keeps `position` together with its results and passes it as
`resume`. `delivery="optimistic"`: an event comes at once, live or from the archive, in any order, not twice
in one life.

What the archive's retention removed before it was delivered ("forgotten"), or no disk can read any more
("lost"), is told as a `Gap` with its publisher and that one's numbers: to `on_gap`, in `event.missed` of the
next event, and in the iteration as `gaps` says.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, cast, get_args

import msgpack

from overlay.context import Timer
from overlay.errors import ClosedError, check_function
from overlay.futures import Finish
from overlay.wire import WireError
from pubsub.archive.client import DurableClient, NearerWatch
from pubsub.archive.durable_event import DurableEvent, from_archive, from_gossip
from pubsub.archive.errors import ArchiveError, Displaced, DurableUsageError
from pubsub.archive.profiles import Profile
from pubsub.archive.protocol.delivery import (
    OptimisticSubscriber,
    OrderedSubscriber,
    SharingSubscriber,
)
from pubsub.archive.protocol.dissemination import MOST_NAME_BYTES, Interest, is_entity_name
from pubsub.archive.protocol.finder import FoundArchive
from pubsub.archive.protocol.subscriber import DurableSubscriber, Numbered, Since, Subscribing
from pubsub.archive.protocol.world import LARGEST_NUMBER
from pubsub.event import Batch, Event
from pubsub.reliable.receipts import Budget
from pubsub.reliable.runs import Gap, GapError, Gaps
from pubsub.subscription import Subscription
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node


Delivery = Literal["ordered", "optimistic"]
Where = str | Profile | Sequence[str | Profile] | None
Begin = Literal["now", "beginning"] | int | float | datetime

GOODBYE_SECONDS = 1.0
"""How long leaving waits for the archive to hear what the application is done with."""

_log = logging.getLogger(__name__)


class DurableOptions(TypedDict, total=False):
    """What may be said of a durable subscription besides its topic and name."""

    since: Begin
    """Where a name begins that the archive does not know: "now", "beginning", a sequence number (int), or a
    time (datetime, or float seconds since 1970). One that it knows goes on where it was."""
    delivery: Delivery
    where: Where
    """A condition on the events' data (see `pubsub.filters`), or a profile, which the archive evaluates; or
    several of them, of which an event has to satisfy one."""
    share: bool
    """Several subscribers of this name, on as many nodes, share its events: each is given to one of them."""
    resume: bytes | None
    """The `position` that the application kept."""
    within: float
    """Seconds that finding an archive and registering may take together."""
    gaps: Gaps
    """Where events will not come: "skip" them, "give" a `Gap` in their place (which the types of the
    iteration leave out), or "raise" `GapError`, and go on after it."""
    on_gap: Callable[[Gap], None] | None
    """Called in any case, when the gap becomes known."""


class DurableSubscription:
    """Made by `Node.subscribe`; iterate over it inside `async with`, from one task at a time."""

    def __init__(
        self,
        node: Node,
        client: DurableClient,
        pattern: Pattern,
        name: str,
        *,
        since: Begin = "now",
        delivery: Delivery = "ordered",
        where: Where = None,
        share: bool = False,
        resume: bytes | None = None,
        within: float = 30.0,
        gaps: Gaps = "skip",
        on_gap: Callable[[Gap], None] | None = None,
    ) -> None:
        _check_options(name, delivery, share, resume, gaps)
        if on_gap is not None:
            check_function("on_gap", on_gap)
        self._share = share
        self.pattern = pattern
        self.name = name
        self.missing = 0
        """How many events the subscription was told to have missed."""
        self._gaps = gaps
        self._on_gap = on_gap
        self._node = node
        self._client = client
        self._since = _since(since)
        self._delivery = delivery
        self._interest = Interest(pattern.text, _profiles(where))
        self._resume = _unpack_position(resume)
        self._within = within
        self._signed = node.config.signatures
        self._queue: deque[DurableEvent | Gap] = deque()
        self._hand: dict[int, DurableEvent] = {}
        """Given to the application, which is not done with them, by their identity as objects."""
        self._given_back: dict[int, tuple[DurableEvent, Timer]] = {}
        """Events that were given back, and come again after a while."""
        self._missed = 0
        self._live: Event | None = None
        """The one that has come live, while it is handed on."""
        self._feed: LiveFeed | None = None
        self._watch: NearerWatch | None = None
        self._core: DurableSubscriber | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._registered: asyncio.Future[str] | None = None
        self._moved = asyncio.Event()
        self._refused = ""
        self._taking = ""
        self._displacement: Displaced | None = None
        self._ended = False
        self._finish = Finish(self._end)

    # Opening and closing.

    def take_over(self, word: str) -> Self:
        """To be called before this is entered: take the name over from a subscriber that has it, instead of
        waiting until that one has left or is silent. It gets `Displaced` with this word. Of several that
        do so, the one that the archive hears last has the name."""
        self._taking = word
        return self

    async def __aenter__(self) -> Self:
        """Register. From here on nothing that is archived for this name is missed."""
        if self._core is not None or self._ended:
            raise DurableUsageError("a subscription is entered once; call subscribe again")
        found = await self._register(Budget(self._within))
        self._watch = NearerWatch(self._client, self.pattern.topic, found.topic, self._overtaken)
        return self

    async def _register(self, budget: Budget) -> FoundArchive:
        """Find an archive, and register there; the archive that was found."""
        found = await self._client.find(self.pattern.topic, b"", budget, lowest=self._share)
        if self._client.has_subscriber(found.topic, self.name):
            raise DurableUsageError(
                f"{self.name!r} is subscribed to {found.topic} on this node already"
            )
        self._registered = asyncio.get_running_loop().create_future()
        self._drop_all()  # what came live while an archive was sought would come from there again
        self._core = self._make_core(found.topic)
        self._client.add_subscriber(self._core)
        try:
            if self._delivery == "optimistic" and self._feed is None:
                self._feed = LiveFeed(self._node, self.pattern, self._selects, self._heard)
                async with budget.spend(f"joining {self.pattern.text}"):
                    await self._feed.__aenter__()
            self._client.use(self._core, found)
            await self._until_registered(budget)
        except BaseException:
            await self._close()
            raise
        return found

    def _make_core(self, topic: str) -> DurableSubscriber:
        kinds = {"ordered": OrderedSubscriber, "optimistic": OptimisticSubscriber}
        kind = SharingSubscriber if self._share else kinds[self._delivery]
        core: DurableSubscriber = kind(
            self._client.runtime.context("channel"),
            Subscribing(topic, self.name, self._interest.packed(), *self._since),
            self._client.config,
            deliver=self._deliver,
            on_gap=self._gap,
            on_silent=lambda: self._client.search_for(core),
            on_registered=self._answered,
            on_displaced=self._displaced,
            on_sync=self._moved.set,
            position=self._resume,
            taking=self._taking,
        )
        return core

    async def _until_registered(self, budget: Budget) -> None:
        assert self._registered is not None
        try:
            async with asyncio.timeout(budget.left):
                refused = await asyncio.shield(self._registered)
        except TimeoutError:
            taken = self._core is not None and self._core.is_name_taken
            why = "another subscriber of this name is there" if taken else "try again"
            raise ArchiveError(
                f"no archive has registered {self.name!r} within {self._within:g} s: {why}"
            ) from None
        if self._displacement is not None:
            raise self._displacement
        if self._ended:
            raise ClosedError(f"the node was closed before an archive had answered {self.name!r}")
        if refused:
            raise ArchiveError(f"the archive did not register {self.name!r}: {refused}")

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None and not self._ended:
            self._done_with_hand()
        await self._finish()

    async def close(self) -> None:
        """End the subscription; the archive goes on keeping everything for its name.

        An event in hand that was not acknowledged, by `event.ack()` or by asking for the next one, is given
        back: it comes again."""
        await self._finish()

    async def _end(self) -> None:
        try:
            if not self._ended:
                await self._say_goodbye()
        finally:
            await self._close()

    async def leave(self) -> None:
        """End the subscription for good: the archive forgets the name and keeps nothing for it any more."""
        core = self._running()
        self._registered = asyncio.get_running_loop().create_future()
        core.leave()
        try:
            await self._until_registered(Budget(self._within))
        finally:
            await self._close()

    async def seek(self, to: Begin) -> None:
        """Have the name go on from another place, back or forward: "now", "beginning", a sequence number, or
        a time, as with `since`. Events in hand are given back, and what is archived from the new place on
        comes whether or not it came before.

        The archive forgets the name and registers it anew. `ArchiveError` when it may not begin there, or no
        archive answers in time; the subscription has ended then, and the name is forgotten."""
        core, since, budget = self._running(), _since(to), Budget(self._within)
        self._registered = asyncio.get_running_loop().create_future()
        core.leave()
        try:
            await self._until_registered(budget)
        except BaseException:
            await self._close()
            raise
        self._client.remove_subscriber(core)
        self._since, self._resume = since, ()
        try:
            await self._register(budget)
        except BaseException:
            await self._close()
            raise

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """An event has to satisfy one of them."""
        return self._interest.profiles

    async def add_profile(self, where: str | Profile) -> None:
        """Events that satisfy this one are for the name too, from when this returns on."""
        await self._ask_for((*self.profiles, *_profiles(where)))

    async def remove_profile(self, where: str | Profile | None) -> None:
        """Events that satisfy no other profile are not for the name any more, from when this returns on; None
        stands for the profile of a name without conditions. What was archived for the name before comes all
        the same. `DurableUsageError` when the name has not got this profile, or has no other one."""
        (gone,) = _profiles(where)
        rest = tuple(one for one in self.profiles if one != gone)
        if len(rest) == len(self.profiles) or not rest:
            why = "it is the only one, so use leave()" if not rest else "the name has not got it"
            raise DurableUsageError(f"{where!r} cannot be removed from {self.name!r}: {why}")
        await self._ask_for(rest)

    async def _ask_for(self, profiles: tuple[Profile, ...]) -> None:
        core = self._running()
        if self._share:
            raise DurableUsageError(
                "the profiles of a shared name are those of its first subscriber"
            )
        self._interest = Interest(self.pattern.text, profiles)
        self._registered = asyncio.get_running_loop().create_future()
        core.ask_for(self._interest.packed())
        try:
            await self._until_registered(Budget(self._within))
        except BaseException:
            await self._close()
            raise

    def _selects(self, data: Any) -> bool:
        return self._interest.selects_data(data)

    def _drop_all(self) -> None:
        """Forget every event that is here."""
        for _, timer in self._given_back.values():
            timer.cancel()
        self._given_back, self._hand = {}, {}
        self._queue.clear()
        self._missed = 0

    async def _say_goodbye(self) -> None:
        """Let the archive hear what the application is done with, if it is there."""
        core = self._core
        if core is None or core.archive is None:
            return
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                core.tell_done()
                while not (core.is_settled or self._queue or self._given_back):
                    self._moved.clear()
                    await self._moved.wait()
                core.tell_done(leaving=True)
                await self._client.runtime.channels.to(core.archive).drained()
        except (TimeoutError, ClosedError):
            pass  # what the archive has not heard comes again

    async def _close(self) -> None:
        self._ended = True
        if self._watch is not None:
            self._watch.stop()
        if self._core is not None:
            self._client.remove_subscriber(self._core)
        for _, timer in self._given_back.values():
            timer.cancel()
        if self._feed is not None:
            feed, self._feed = self._feed, None
            await feed.close()
        self._wake()

    def end(self) -> None:
        """The node is closing: the iterator ends."""
        self._ended = True
        if self._watch is not None:
            self._watch.stop()
        self._queue.clear()
        if self._registered is not None and not self._registered.done():
            self._registered.set_result("")
        self._wake()

    @property
    def is_ended(self) -> bool:
        return self._ended

    # What the archive says.

    def _answered(self, refused: str) -> None:
        if self._registered is not None and not self._registered.done():
            self._registered.set_result(refused)
        elif refused:
            self._refused = refused
            self._wake()

    def _displaced(self, word: str) -> None:
        """The name's events go to another subscriber; what is here and was not given goes there too."""
        self._displacement = Displaced(
            f"another subscriber has taken {self.name!r} over: a name has one at a time", word
        )
        if self._registered is not None and not self._registered.done():
            self._registered.set_result("")
        self._drop_all()
        self._wake()

    def _gap(self, gap: Gap) -> None:
        self.missing += gap.count
        self._missed += gap.count
        self._node.metrics.counter(
            "durable_gaps", "Times that a durable subscriber was told of removed events."
        ).add()
        _log.warning("%s: events %s at its archive", self.name, gap)
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except Exception:
                _log.exception("on_gap of %s failed", self.name)
        if self._gaps != "skip":
            self._queue.append(gap)
            self._wake()

    def _overtaken(self, found: FoundArchive) -> None:
        """What is published from here on goes to other archives than the one that this name is known to."""
        self._node.metrics.counter(
            "durable_overtaken", "Durable subscriptions whose topic has got a nearer archive since."
        ).add()
        _log.warning("%s: %s has an archive now: subscribe again", self.name, found.topic)

    def _heard(self, event: Event) -> None:
        assert isinstance(self._core, OptimisticSubscriber)
        if len(self._queue) < self._client.config.unread:
            self._live = event
            self._core.heard(event.id)
            self._live = None

    def _deliver(self, numbered: Numbered) -> None:
        assert self._core is not None
        missed, self._missed = self._missed, 0
        if self._live is not None:
            event = from_gossip(self._live, numbered, missed)
        else:
            try:
                event = from_archive(
                    numbered,
                    self._core.subscribing.topic,
                    missed,
                    self._node.validation,
                    self._signed,
                )
            except WireError as error:
                drops = self._node.metrics.family(
                    "events_dropped", "reason", "Events dropped, by reason."
                )
                drops.add(error.reason)
                self._core.done_with(numbered)
                return
        if (telemetry := self._node.telemetry) is not None:
            telemetry.delivered(event.origin, event.sequence, 1, self.pattern.text)
        self._queue.append(event)
        self._wake()

    # What the application does.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DurableEvent:
        self._done_with_hand()
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            await self._news()
        return self._next()

    async def fetch(
        self, most: int, within: float | None = None, *, keep: bool = False
    ) -> list[DurableEvent]:
        """The next events, at least one and at most `most`; an empty list when there is none within `within`
        seconds, or the subscription has ended. With `gaps="raise"` a gap ends a list, and is raised by the
        next call.

        The application is done with those that it was given before, unless it gave them back. It may
        acknowledge each of these, in any order; asking for more says that it is done with all. With `keep`
        it does not: each event is in hand until it is acknowledged or given back."""
        if not isinstance(most, int) or most < 1:
            raise DurableUsageError(f"fetch takes a number of events, 1 or more, not {most!r}")
        if not keep:
            self._done_with_hand()
        try:
            async with asyncio.timeout(within):
                while not self._queue and not self._ended:
                    await self._news()
        except TimeoutError:
            return []
        found: list[DurableEvent] = []
        while self._queue and len(found) < most:
            if found and self._gaps == "raise" and isinstance(self._queue[0], Gap):
                break
            found.append(self._next())
        return found

    def _next(self) -> DurableEvent:
        event = self._queue.popleft()
        if isinstance(event, Gap):
            if self._gaps == "raise":
                raise GapError(event, "retention removed them, or no archive can read them")
            return cast(DurableEvent, event)
        self._hand[id(event)] = event
        return event.held_by(self)

    async def _news(self) -> None:
        """Wait until something has come, or the subscription ends; raise what keeps more from coming."""
        if self._displacement is not None:
            raise self._displacement
        if self._refused:
            raise ArchiveError(f"another archive did not register {self.name!r}: {self._refused}")
        self._running()
        if self._arrival is not None:
            raise DurableUsageError("another task is waiting for this subscription's events")
        self._arrival = asyncio.get_running_loop().create_future()
        try:
            await self._arrival
        finally:
            self._arrival = None

    def __len__(self) -> int:
        """How many events wait here; the archive has more."""
        return len(self._queue)

    @property
    def position(self) -> bytes:
        """What the application is done with, the event in hand included: to be kept with its results, in
        one transaction, and passed as `resume`. It grows with the number of publishers."""
        core = self._running()
        hand = [one._numbered for one in self._hand.values()]
        packed: bytes = msgpack.packb(core.position_with(one for one in hand if one is not None))
        return packed

    def done_position(self, most: int) -> bytes:
        """As `position`, without the events in hand: what the application has acknowledged, up to the first
        event that it has not; of the `most` publishers' runs that it has acknowledged an event of last."""
        packed: bytes = msgpack.packb(self._running().position_with(())[-most:])
        return packed

    def acknowledge(self, event: DurableEvent) -> None:
        """See `DurableEvent.ack`."""
        held = self._hand.pop(id(event), None)
        if held is not None and not self._ended:
            self._done(held)

    def give_back(self, event: DurableEvent, delay: float) -> None:
        """See `DurableEvent.nak`."""
        if not delay >= 0:
            raise DurableUsageError(f"an event comes again after 0 seconds or more, not {delay!r}")
        if self._hand.pop(id(event), None) is not None and not self._ended:
            context = self._client.runtime.context("channel")
            timer = context.call_later(delay, partial(self._give_again, id(event)))
            self._given_back[id(event)] = (event, timer)

    def _give_again(self, key: int) -> None:
        event, _ = self._given_back.pop(key)
        self._queue.appendleft(event.again())
        self._wake()

    def _done_with_hand(self) -> None:
        if self._hand:
            hand, self._hand = self._hand, {}
            for event in hand.values():
                self._done(event)

    def _done(self, event: DurableEvent) -> None:
        if self._core is not None and event._numbered is not None:
            self._core.done_with(event._numbered)

    def _running(self) -> DurableSubscriber:
        if self._core is None or self._ended:
            raise DurableUsageError("use a subscription inside `async with`")
        return self._core

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


def _check_options(name: str, delivery: str, share: bool, resume: bytes | None, gaps: str) -> None:
    if not is_entity_name(name):
        raise DurableUsageError(
            f"durable={name!r} is not a valid name: it must be printable, of 1 to {MOST_NAME_BYTES} bytes"
        )
    if delivery not in ("ordered", "optimistic"):
        raise DurableUsageError(f'delivery is "ordered" or "optimistic", not {delivery!r}')
    if resume is not None and delivery != "ordered":
        raise DurableUsageError('resume goes with delivery="ordered"')
    if share and (resume is not None or delivery != "ordered"):
        raise DurableUsageError("share goes without delivery and without resume")
    if gaps not in get_args(Gaps):
        raise DurableUsageError(f'gaps is "skip", "give" or "raise", not {gaps!r}')


def _profiles(where: Where) -> tuple[Profile, ...]:
    if where is None:
        return (Profile(),)
    several = [where] if isinstance(where, str | Profile) else where
    is_list = isinstance(several, Sequence) and len(several) > 0
    if not is_list or not all(isinstance(one, str | Profile) for one in several):
        raise DurableUsageError(
            f"where is a condition, a profile, or several of them, not {where!r}"
        )
    return tuple(one if isinstance(one, Profile) else Profile.of(one) for one in several)


def _since(begin: Begin) -> tuple[Since, float]:
    if isinstance(begin, datetime):
        return "time", begin.timestamp()
    if isinstance(begin, str) and begin in ("now", "beginning"):
        return begin, 0.0
    if isinstance(begin, int) and not isinstance(begin, bool) and 0 <= begin < LARGEST_NUMBER:
        return "sequence", float(begin)
    if isinstance(begin, float) and math.isfinite(begin):
        return "time", begin
    raise DurableUsageError(
        'since is "now", "beginning", a sequence number (int), or a time (datetime, or float seconds '
        f"since 1970), not {begin!r}"
    )


def _unpack_position(resume: bytes | None) -> tuple[tuple[bytes, int], ...]:
    if resume is None:
        return ()
    try:
        marks: Sequence[Any] = msgpack.unpackb(resume)
        return tuple((bytes(stream), int(mark)) for stream, mark in marks)
    except (ValueError, TypeError, msgpack.UnpackException):
        raise DurableUsageError("resume is not a position of a durable subscription") from None


class LiveFeed(Subscription):
    """Hands on at once each event that the archive would select too, and keeps none."""

    def __init__(
        self,
        node: Node,
        pattern: Pattern,
        selects: Callable[[Any], bool],
        heard: Callable[[Event], None],
    ) -> None:
        super().__init__(node, pattern, node._deliveries, "none", "drop_oldest", 1)
        self._selects = selects
        self._heard = heard

    def offer(self, batch: Batch) -> None:
        if not self.pattern.matches(batch.topic):
            return
        for place, event in enumerate(batch.events()):
            if self._selects(event.data):
                self._deliveries.delivered(self.pattern, batch.part(place, place + 1))
                self._heard(event)
