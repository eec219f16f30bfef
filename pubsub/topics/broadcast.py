"""Topic Reliable Broadcast (DACE, section 6 and appendix 1): one participant, as a pure object.

    validity            what a correct publisher broadcasts is delivered by correct subscribers in the end
    agreement           what one correct subscriber delivers, all deliver
    uniform integrity   each at most once, and only what was broadcast

With a log, a message is on the disk before it is delivered or acknowledged. A subscriber is *correct* if it
does not crash for ever, stays cut off for less than `stay_away`, and, where it crashes, comes back under
the same identity with its log. Without a log, it gets what it had not acknowledged, and what it
acknowledged in its last moments may come again or be told as a gap. A participant that subscribes gets all
that its sponsor receives after that.

Slips of the appendix that are set right: line 34 lets through what was collected before and stops what is
new: a message is new when it is above the highest collected number or awaited (here: not yet taken). Line
38 notes that the *sender* has the message and forgets the receiver, which acknowledges nothing then. Lines
17, 18, 63 and 64: see `upkeep`; lines 44 and 50: see `knowledge.Matrix`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import OneTimer
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.runs import Gap, Reason, source_of
from pubsub.topics.acknowledging import Acknowledging
from pubsub.topics.config import BroadcastConfig, TopicMembershipConfig
from pubsub.topics.context import TopicContext
from pubsub.topics.delivering import Delivering, Holes, Order
from pubsub.topics.forwarding import CheckAndForward
from pubsub.topics.log import Restored, TopicLog
from pubsub.topics.membership import TopicMembership
from pubsub.topics.messages import Cast, Entry, Item, NumbersOnWire, Received
from pubsub.topics.state import BroadcastState, HeldMessage, restore
from pubsub.topics.upkeep import Collecting, TopicUpkeep
from pubsub.topics.views import StableView, TopicView

SYNC_DELAY = 0.01
"""Seconds in which messages gather that are put on the disk together."""

MOST_EARLY = 64
"""Participants whose statements are kept until it is known that they take part..."""

MOST_EARLY_OF_ONE = 8
"""...and the messages that are kept of each."""


class Application(Protocol):
    """Who uses a topic."""

    def joined(self) -> None:
        """This participant has subscribed."""

    def deliver(self, item: Item, complete: int) -> None:
        """A message; `finished` must be called when the application is done with it. Up to `complete`, all
        of the same source were delivered, were for others, or are told as a gap."""

    def gap(self, gap: Gap) -> None: ...

    def lacked(self, item: Item, by: PeerId) -> None:
        """`by` took part already when a message was sent, and this participant had not heard of `by` yet:
        the message goes to `by` too."""

    def view_changed(self, view: TopicView) -> None: ...

    def stable(self, view: StableView) -> None: ...

    def participant_changed(self, before: Entry | None, now: Entry) -> None: ...

    def room(self) -> None:
        """Messages were acknowledged by all, or sent: there may be room for more."""


class TopicBroadcast:
    """One participant of a topic: it publishes, delivers, holds for others, forwards and forgets."""

    def __init__(
        self,
        topic: str,
        context: TopicContext,
        config: BroadcastConfig,
        membership: TopicMembershipConfig,
        application: Application,
        log: TopicLog,
        *,
        boot: int,
        run: bytes,
        filter: str = "",
        order: Order = "none",
        counts: dict[str, int] | None = None,
    ) -> None:
        """`boot` must be above that of every earlier start, `run` another one unless the log names it.
        `counts`: where to count, shared with other topics if that is wanted."""
        restored = log.restore()
        if restored.run is not None:
            boot, run = max(boot, restored.boot), restored.run
        self.membership = TopicMembership(
            topic, context, membership, self, boot=boot, run=run, filter=filter
        )
        self.state = BroadcastState(
            topic, context, config, self.membership, log, {} if counts is None else counts
        )
        self._application = application
        self._restored = restored
        self.noted = restored.note
        """The number that the application noted last in its log; 0 if it noted none."""
        self._forwarding = CheckAndForward(self.state)
        self._acknowledging = Acknowledging(self.state, self._sync_begins)
        self._collecting = Collecting(self.state, self._others_let_go)
        self._delivering = Delivering(self.state, order, application.deliver)
        self._holes = Holes(self.state, self._skipped)
        self._upkeep = TopicUpkeep(
            self.state,
            self._forwarding,
            self._acknowledging,
            self._collecting,
            self._look_for_holes,
            application.room,
        )
        self._stubs_timer = OneTimer(context.call_later, self._forwarding.send_stubs)
        self._sync_timer = OneTimer(context.call_later, self._acknowledging.sync)
        self._senders: dict[tuple[bytes, int], PeerId] = {}
        """From whom the messages came that are not acknowledged yet."""
        self._met: dict[PeerId, None] = {}
        self._appeared: dict[PeerId, float] = {}
        """When participants were heard of for the first time, until they have said what they have."""
        self._early: dict[PeerId, list[Received]] = {}
        """Statements of those who are not known yet to take part, in the boot that they state."""
        self._unwritten: list[Item] = []
        """With a log: messages that are delivered once they are on the disk."""
        self._unsent: list[Item] = []
        """Own messages that are sent once they are on the disk: a number must never be given twice."""
        self._sending = 0
        """Own messages that are on their way to the disk."""
        self._number = restore(self.state, restored)
        self._stopped = False

    # What can be asked.

    @property
    def can_rejoin(self) -> bool:
        """Whether a log remembers this participant, so that it needs no sponsor."""
        return self._restored.run is not None

    @property
    def is_full(self) -> bool:
        """Whether this publisher has to wait."""
        return self.state.is_full

    @property
    def is_behind(self) -> bool:
        """Whether the application has as much before it as it may have."""
        return self._delivering.is_behind

    @property
    def held(self) -> int:
        """Messages held for those who may lack them."""
        return len(self.state.held)

    @property
    def counts(self) -> dict[str, int]:
        """What happened, and what was dropped, under the names in `state.COUNTED`."""
        return self.state.counts

    def is_settled(self, number: int) -> bool:
        """Whether everybody has acknowledged this publisher's message."""
        return self.is_sent(number) and not self.state.held.get(self.state.own_source, number)

    def is_acked(self, number: int) -> bool:
        """Whether one other participant that this publisher's message is for, or everybody, has it."""
        state = self.state
        held = state.held.get(state.own_source, number)
        if held is None:
            return self.is_settled(number)
        return any(
            row.has(state.own_source, number)
            for peer, row in state.acknowledged.rows.items()
            if peer != state.me and held.item.is_for(peer)
        )

    def is_sent(self, number: int) -> bool:
        """Whether this publisher's message is on its way, and on the disk if there is a log."""
        return number in self.state.taken_of(self.state.own_source)

    def is_done(self, publisher: PeerId, run: bytes, number: int) -> bool:
        """Whether no message of a publisher's run up to this number is to come any more: each was
        delivered, was for others or published before this participant's time, or is told as a gap."""
        return self._delivering.is_done(source_of(publisher, run), number)

    def waiting_for_disk(self) -> list[Item]:
        """What has come, and is delivered as soon as it is on the disk."""
        return self._delivering.waiting_for_disk()

    def is_handed_on(self) -> bool:
        """Whether all of this publisher's messages are acknowledged by all that can be reached."""
        state = self.state
        near = [peer for peer in self.membership.view.members if peer != state.me]
        return (
            not self._unsent
            and not self._sending
            and all(
                state.acknowledged.has(peer, state.own_source, number)
                for number in state.held.of(state.own_source)
                for peer in near
            )
        )

    # Beginning and ending.

    def start(self) -> None:
        """Take part as the first one, or again with what the log remembers."""
        self.membership.start(self._restored.entries)

    def leave(self) -> None:
        if self.membership.is_joined:
            self._forwarding.send_stubs()
            self._acknowledging.flush()
        self.membership.leave()
        self.stop()

    def stop(self) -> None:
        """Do nothing any more, as if crashed."""
        self._stopped = True
        self.membership.stop()
        self._acknowledging.stop()
        self._upkeep.stop()
        self._stubs_timer.close()
        self._sync_timer.close()

    # Messages.

    def publish(self, payload: bytes, *, only: bool = False, named: tuple[PeerId, ...] = ()) -> int:
        """TR-broadcast: to everybody but those named, or only to them. The number of the message.

        With a log it is sent when it is on the disk; if the disk fails, that is later, as `is_sent` tells.
        """
        state = self.state
        self._number += 1
        item = Item(state.me, self.membership.run, self._number, only, named, payload)
        state.log.took(item, item.is_for(state.me))
        self._unsent.append(item)
        self._acknowledging.changed()
        self._acknowledging.sync()
        return item.number

    def _send_out(self, item: Item) -> None:
        """Lines 25 to 31: send a message of this participant's own; it is in the log, if there is one."""
        self._take(item, self.state.me, written=True)
        held = self.state.held.get(item.source, item.number)
        if held is not None:
            self._forwarding.publish(held)
        if self._forwarding.has_stubs:
            self._stubs_timer.set(self.state.config.ack_delay)
        self._upkeep.collect_soon()

    def note(self, note: int) -> None:
        """Have the log remember a number, together with what is logged next."""
        self.noted = note
        self.state.log.noted(note)
        self._acknowledging.changed()

    def finished(self, item: Item) -> None:
        """The application is done with a message that it was delivered."""
        state = self.state
        if self._stopped:
            return
        self._delivering.finished(item)
        self._acknowledging.finish(item)
        if state.log.is_durable:
            self._sync_timer.set(SYNC_DELAY)
        if (item.source, item.number) in self._senders:
            self._acknowledge(item)

    def receive(self, sender: Contact, message: object) -> None:
        """React to a message of this broadcast, or of the membership that it stands on."""
        if isinstance(message, Cast):
            self.receive_cast(sender, message)
        elif isinstance(message, Received):
            self.receive_received(sender, message)
        else:
            self.membership.receive(sender, message)

    def receive_cast(self, sender: Contact, cast: Cast) -> None:
        if not self.membership.is_joined:
            return
        self.membership.heard(sender.id)
        for item in cast.items:
            self._receive_item(sender.id, item)
        if cast.garbage:
            self._hear_garbage(cast)

    def receive_received(self, sender: Contact, message: Received) -> None:
        if not self.membership.is_joined:
            return
        self.membership.heard(sender.id)
        state = self.state
        news = False
        self._keep_if_early(sender, message)
        for statement in message.statements:
            if statement[0] != state.me:
                news = state.acknowledged.merge(statement, state.context.now()) or news
            if statement[0] == sender.id:
                self._heard_statement_of(sender.id)
        if message.again:
            state.held.unsend(sender.id)
            self._upkeep.check_soon()
        self._hear_garbage(message)
        if message.asks and sender.id in self.membership.participants:
            sources = [s for statement in message.statements for s, _, _ in statement[4]]
            self._acknowledging.answer(sender, list(dict.fromkeys(sources)))
        if news:
            self._upkeep.collect_soon()

    def _keep_if_early(self, sender: Contact, message: Received) -> None:
        """What a newcomer says of itself may overtake the news that it takes part: keep it until then."""
        row = self.state.acknowledged.rows.get(sender.id)
        known = -1 if row is None else row.boot
        if any(s[0] == sender.id and s[1] > known for s in message.statements):
            messages = [*self._early.get(sender.id, ()), message][-MOST_EARLY_OF_ONE:]
            remember(self._early, sender.id, messages, MOST_EARLY)

    def _hear_what_came_early(self, peer: Contact) -> None:
        for message in self._early.pop(peer.id, ()):
            self.receive_received(peer, message)

    def _heard_statement_of(self, peer: PeerId) -> None:
        if peer not in self._forwarding.spoken and peer in self.membership.participants:
            self._forwarding.spoken[peer] = self.state.context.now()
            self._revive_what_is_lacked_by(peer)
            self._upkeep.check_soon()

    def _revive_what_is_lacked_by(self, peer: PeerId) -> None:
        """One that began the topic apart lacks what all others have: hold it again, as far as it is kept. The
        application hears of this, and of what it sent before it heard of that one and is still held."""
        state, now = self.state, self.state.context.now()
        row = state.acknowledged.rows.get(peer)
        appeared = self._appeared.pop(peer, None)
        if row is None or appeared is None:
            return

        def needs_not(source: bytes, number: int) -> bool:
            return source not in state.taken or row.has(source, number)

        lacked = [
            held.item
            for held in state.held.of(state.own_source).values()
            if held.since <= appeared and not row.has(state.own_source, held.item.number)
        ]
        for item in state.kept.take_lacked(needs_not, appeared, now):
            held = HeldMessage(item, now, {item.publisher: None}, revived=True)
            state.held.add(held)
            state.counts["revived"] += 1
            lacked.append(item)
        for item in lacked:
            self._application.lacked(item, peer)
        self._upkeep.look_after_later()

    def _hear_garbage(self, message: Cast | Received) -> None:
        if self._collecting.told(message.garbage, message.digest):
            self._upkeep.after_collecting()

    def _receive_item(self, sender: PeerId, item: Item) -> None:
        state = self.state
        held = state.held.get(item.source, item.number)
        if held is not None:
            held.holders[sender] = None
        if item.number in state.taken_of(item.source):
            state.counts["duplicates"] += 1
        elif item.source == state.own_source or (item.payload is None and item.is_for(state.me)):
            state.counts["wrong"] += 1
        elif state.held.bytes >= state.config.most_held_bytes:
            state.counts["refused"] += 1
            self._acknowledging.refuse()
            self._upkeep.look_after_later()
        else:
            self._take(item, sender)

    def _take(self, item: Item, sender: PeerId, *, written: bool = False) -> None:
        """Lines 26 to 31 and 36 to 39: hold a new message for others, and deliver it, once it is `written`
        to the log."""
        state = self.state
        source = item.source
        if not state.taken_of(source).add(item.number):
            state.counts["wrong"] += 1
            return
        state.counts["taken"] += 1
        held = HeldMessage(item, state.context.now(), {sender: None, item.publisher: None})
        state.held.add(held)
        delivers = item.payload is not None and item.is_for(state.me)
        if not written:
            state.log.took(item, delivers)
            self._acknowledging.changed()
        self._senders[source, item.number] = sender
        is_behind = self._delivering.is_behind
        is_unwritten = state.log.is_durable and not written
        if is_unwritten:
            self._unwritten.append(item)
        if delivers:
            self._delivering.add(item, is_written=not is_unwritten)
        if not delivers or (state.log.is_durable and not is_behind):
            self._acknowledge(item)
        if is_unwritten:
            self._sync_timer.set(SYNC_DELAY)
        else:
            self._delivering.hand_over(source)
        self._upkeep.look_after_later()

    def _sync_begins(self) -> Callable[[], None]:
        """What is to be done when all that the log was told so far is on the disk."""
        written, self._unwritten = self._unwritten, []
        unsent, self._unsent = self._unsent, []
        self._sending += len(unsent)

        def synced() -> None:
            for item in written:
                self._delivering.written(item)
            for source in dict.fromkeys(item.source for item in written):
                self._delivering.hand_over(source)
            self._sending -= len(unsent)
            for item in unsent:
                self._send_out(item)
            if unsent:
                self._application.room()

        return synced

    def _acknowledge(self, item: Item) -> None:
        sender = self._senders.pop((item.source, item.number), item.publisher)
        self._acknowledging.acknowledge(item, sender)
        if item.publisher == self.state.me:
            self._upkeep.collect_soon()

    def _others_let_go(self, source: bytes, gone: Numbers) -> None:
        self._holes.others_let_go(source, gone)
        self._upkeep.look_after_later()

    def _skipped(self, source: bytes, first: int, last: int, reason: Reason) -> None:
        """What never came here is gone everywhere."""
        self._acknowledging.skip(source, first, last)
        self._application.gap(Gap.of(source, first, last, reason))
        self._delivering.hand_over(source)

    def _look_for_holes(self) -> bool:
        self._holes.look(self._delivering.order)
        return len(self._holes) > 0

    def change_order(self, order: Order) -> None:
        """Deliver in another order from now on."""
        self._delivering.change_order(order)

    # What the membership tells and asks.

    def had(self, numbers: NumbersOnWire) -> None:
        """An earlier run of this participant, which kept no log and needed no sponsor to come back, had these
        messages: they do not come again, and are not missing."""
        state = self.state
        state.mine.add(numbers, state.context.now())
        for source, mark, ranges in numbers:
            state.taken_of(source).update(mark, ranges)
            self._delivering.hand_over(source)
        self._acknowledging.changed(source for source, _, _ in numbers)

    def joined(self, me: Entry, has: NumbersOnWire) -> None:
        """This participant's subscription, first or anew, has been announced, as `me` says; it has, or does
        not get, these messages."""
        state = self.state
        row = state.acknowledged.begin(me, state.context.now())
        row.add(has, state.context.now())
        for source, mark, ranges in has:
            state.taken_of(source).update(mark, ranges)
        row.digest = self.membership.digest
        state.log.began(me.boot, me.run)
        self._acknowledging.know(me)
        self._acknowledging.changed(source for source, _, _ in has)
        self._acknowledging.sync()
        self._met.clear()
        self._application.joined()
        unfinished, self._restored = self._restored.unfinished, Restored(self._restored.run)
        for item in unfinished:
            self._delivering.add(item, is_written=True)
        self._delivering.hand_over_all()
        if len(state.held):
            self._upkeep.look_after_later()

    def appeared(self, peer: Entry) -> None:
        """A participant was never heard of before; `changed` follows."""
        self._appeared[peer.id] = self.state.context.now()

    def changed(self, before: Entry | None, now: Entry) -> None:
        """Another participant joined, changed, began anew or left."""
        state = self.state
        if now.left:
            self._appeared.pop(now.id, None)
        if before is None or now.left or before.boot != now.boot:
            self._forwarding.spoken.pop(now.id, None)
            state.held.unsend(now.id)
            state.acknowledged.rows.pop(now.id, None)
            if not now.left:
                state.acknowledged.begin(now, state.context.now())
        self._acknowledging.know(now)
        self._application.participant_changed(before, now)
        self._upkeep.collect_soon()
        if not now.left:
            self._hear_what_came_early(now.contact)

    def met(self, peer: Contact) -> None:
        """A participant can be talked to, for the first time or again."""
        again = peer.id not in self._met  # what came before this participant had joined was dropped
        self._met[peer.id] = None
        self._acknowledging.state_to(peer, again=again)
        self._upkeep.check_soon()

    def parted(self, peer: PeerId) -> None:
        """The channel to a participant is closed."""
        self._forwarding.spoken.pop(peer, None)
        self._upkeep.check_soon()

    def view_changed(self, view: TopicView) -> None:
        self._upkeep.check_soon()
        self._application.view_changed(view)

    def stable(self, view: StableView) -> None:
        self._forwarding.check()
        self._application.stable(view)

    def heard_of(self) -> None:
        """What this participant knows was told to somebody, or could not be told."""
        self._application.room()
