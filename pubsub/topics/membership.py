"""Topic Membership (DACE, sections 2.4, 5 and 7.1): one participant's knowledge of its topic.

To subscribe, one needs to know a single participant, which announces the newcomer to all on its behalf; to
unsubscribe, one says so. Neither needs any agreement: entries spread like everything else. Partitions work on
apart from each other, each with its own views, and merge by themselves when channels open again.

The failure detector watches nodes, and a node may run without the topic: where its channel was closed, only a
participant's own voice opens it.

Faults: crashes, recoveries under the same identity, partitions, lost and reordered messages. Peers are
believed: any process with the network's key can write anything into the matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from overlay.contact import Contact, PeerId
from pubsub.topics.config import TopicMembershipConfig
from pubsub.topics.context import TopicContext
from pubsub.topics.knowledge import Kind, NewsItem, TopicKnowledge, as_bytes
from pubsub.topics.messages import LARGEST, Absent, Entry, JoinTopic, Knowledge, NumbersOnWire
from pubsub.topics.spreading import Spreading
from pubsub.topics.views import OwnRow, StableView, TopicView, ViewWatch

if TYPE_CHECKING:
    from pubsub.topics.broadcast import TopicBroadcast

FARTHEST_BOOT = LARGEST >> 1
"""A boot that nobody reaches: a participant that is said to have reached it does not begin above it."""

REMEMBER_LEFT = 3600.0
"""Seconds for which one that left is remembered at most, so that old gossip does not bring it back."""


class TopicMembership:
    """One participant. It begins with `start` or `subscribe`; the driver hands it messages and hints."""

    def __init__(
        self,
        topic: str,
        context: TopicContext,
        config: TopicMembershipConfig,
        listener: TopicBroadcast,
        *,
        boot: int,
        run: bytes,
        filter: str = "",
    ) -> None:
        self.topic = topic
        self.me: PeerId = context.contact.id
        self.boot = boot
        self.run = run
        self.filter = filter
        self.is_joined = False
        self._context = context
        self._config = config
        self._listener = listener
        self._knowledge = TopicKnowledge(self.me, config.most_participants)
        self._spreading = Spreading(
            topic, context, config, self._knowledge, self._open_peers, listener.heard_of
        )
        self._views = ViewWatch(self._spreading, listener)
        self._row = OwnRow(self._spreading, self._row_is_due)
        self._sponsored: dict[PeerId, tuple[int, NumbersOnWire]] = {}
        """Those announced here of whom nothing was heard yet, their boots, and what they do not get."""
        self._asked: dict[PeerId, Contact] = {}
        """The participants that were asked to announce this one, and may do so still."""
        self._left = False

    # What can be asked.

    @property
    def participants(self) -> dict[PeerId, Entry]:
        """All that have subscribed, reachable or not, this one included."""
        return self._knowledge.roster.joined

    @property
    def digest(self) -> bytes:
        """Of who has subscribed; equal digests mean the same participants, in the same boots."""
        return as_bytes(self._knowledge.roster.digest)

    @property
    def view(self) -> TopicView:
        return self._views.view

    @property
    def stable_view(self) -> StableView | None:
        """The last one that was reached."""
        return self._views.stable_view

    @property
    def is_stable(self) -> bool:
        """Whether the last stable view is what this participant still sees."""
        return self._views.is_stable

    @property
    def is_whole(self) -> bool:
        """Whether all that have subscribed are in the view, or taken for gone."""
        missing = self.participants.keys() - self.view.members
        return missing <= self._row.suspected.keys()

    def can_talk_to(self, peer: PeerId) -> bool:
        """Whether a participant's own channel is not known to be closed."""
        return peer in self.participants and not self._row.is_closed(peer)

    def is_open(self, one: PeerId, other: PeerId) -> bool:
        """Whether two participants, others or not, have an open channel, as far as is known here."""
        return self._knowledge.matrix.is_open(one, other)

    # Beginning and ending.

    def start(self, remembered: tuple[Entry, ...] = ()) -> None:
        """Take part as the first one, or, with what a log remembers, again."""
        for entry in remembered:
            if entry.id != self.me and not entry.left:
                self._take_entry(entry, None)
        self._announce_myself()
        self._greet_all()

    def subscribe(self, sponsor: Contact) -> None:
        """Ask a participant to announce this one; `joined` tells that it did. May be repeated, to any, and
        does nothing once it has joined: what it states of its channels counts in the boot that was
        announced."""
        if self.is_joined:
            return
        self.boot += 1
        self._asked[sponsor.id] = sponsor
        request = JoinTopic(self.topic, self._context.contact, self.boot, self.run, self.filter)
        self._context.send(sponsor, request)

    def meet(self, stranger: Contact) -> None:
        """Tell a peer that was found under this topic, and is not known, what is known here."""
        if self.is_joined and stranger.id != self.me and stranger.id not in self.participants:
            self._spreading.tell_everything(stranger, asks=True)

    def tell_along(self, peer: Contact) -> None:
        """Something is about to be sent to a participant: what it was not told yet goes with it."""
        if not self.is_stable:  # else everybody knows everything
            self._spreading.tell(peer, always=False)

    def change_filter(self, filter: str) -> None:
        self.filter = filter
        mine = self.participants[self.me]
        self._take_entry(replace(mine, filter=filter, revision=mine.revision + 1), None)
        self._tell_all()

    def is_filter_heard(self) -> bool:
        """Whether all that can be reached know what this participant wants."""
        mine = NewsItem(Kind.ENTRY, self.me)
        return all(self._spreading.is_heard_by(p, mine) for p in self.view.members if p != self.me)

    def leave(self) -> None:
        """Unsubscribe, tell everybody who can be reached, and stop. One that has not joined tells those whom
        it asked: an announcement, made or not yet, does not outlive this."""
        mine = Entry(self._context.contact, self.boot, True, 0, self.run, self.filter, ())
        to = list(self._asked.values())
        if self.is_joined:
            mine = replace(self.participants[self.me], left=True, before=())
            to = [entry.contact for peer, entry in self.participants.items() if peer != self.me]
        self._left = True
        self._knowledge.merge_entry(mine, self._context.now())
        self._spreading.changed(NewsItem(Kind.ENTRY, self.me))
        for contact in to:
            self._spreading.tell(contact)  # even if its channel seems to be closed
        self.stop()

    def stop(self) -> None:
        """Do nothing any more, as if crashed."""
        self.is_joined = False
        self._spreading.stop()
        self._views.stop()
        self._row.stop()
        for entry in list(self.participants.values()):
            if entry.id != self.me:
                self._context.unwatch(entry.contact)

    def expel(self, peer: PeerId) -> None:
        """Count a participant that stays away as having left; if it comes back, it announces itself anew."""
        entry = self.participants.get(peer)
        if entry is not None and peer != self.me:
            self._take_entry(replace(entry, left=True, before=()), None)
            self._tell_all()
            self._views.look_again()

    # What the failure detector and the channels say of nodes, which are not participants yet.

    def closed(self, peer: PeerId) -> None:
        if peer in self.participants and peer not in self._row.suspected and self.is_joined:
            self._row.suspected[peer] = None
            self._listener.parted(peer)
            self._row.renew_soon()

    def opened(self, peer: PeerId) -> None:
        """A suspected participant's node answers: ask whether the participant is there, too."""
        if self._row.suspected.pop(peer, self) is None and self.is_joined:
            self._row.unheard[peer] = None
            self._spreading.tell(self.participants[peer].contact, asks=True)
            self._row.renew_soon()

    def doubted(self, peer: PeerId) -> None:
        """A participant's node began anew, or said that it is not in the topic. That may be old by now: the
        channel is closed until the participant is heard, which it is soon if it takes part."""
        if self.is_joined and peer != self.me and self.can_talk_to(peer):
            self._row.unheard[peer] = None
            self._listener.parted(peer)
            self._row.renew_soon()

    # Messages.

    def receive(self, sender: Contact, message: object) -> None:
        """React to one of the membership's own messages; anything else is ignored."""
        if isinstance(message, Knowledge):
            self.receive_knowledge(sender, message)
        elif isinstance(message, JoinTopic):
            self.receive_subscribe(sender, message)
        elif isinstance(message, Absent):
            self.doubted(sender.id)

    def receive_subscribe(self, sender: Contact, request: JoinTopic) -> None:
        """Announce a newcomer vicariously; one that asks twice gets the same answer twice."""
        newcomer = request.subscriber
        if not self.is_joined or sender.id != newcomer.id or newcomer.id == self.me:
            return
        known = self._knowledge.roster.get(newcomer.id)
        if known is None or known.boot < request.boot:
            has = self._listener.state.acknowledged_by(newcomer.id)
            if has is None:
                has = self._listener.state.acknowledged_here()
            before = self._listener.state.without_garbage(has)
            entry = Entry(newcomer, request.boot, False, 0, request.run, request.filter, before)
            self._take_entry(entry, None)
            self._sponsored[newcomer.id] = (request.boot, has)
            self._tell_all(besides=newcomer.id)
            self._views.look_again()
        boot, answer = self._sponsored.get(newcomer.id, (None, ()))
        self._spreading.tell_everything(newcomer, has=answer if boot == request.boot else None)

    def receive_knowledge(self, sender: Contact, message: Knowledge) -> None:
        """Take what is newer than what is known here, and answer where it is asked for and needed."""
        if self._left:
            return
        now_joined = self._take_entries(sender, message)
        if not self.is_joined:
            return
        self._sponsored.pop(sender.id, None)
        for row in message.rows:
            if row.owner != self.me and self._knowledge.merge_row(row):
                self._spreading.changed(NewsItem(Kind.ROW, row.owner), sender.id)
        if now_joined:
            self._greet_all()
        self.heard(sender.id)
        self._views.look_again()
        if message.sight is not None:
            self._views.hear(sender.id, message.sight)
        self._compare(sender, message)

    def _compare(self, sender: Contact, message: Knowledge) -> None:
        row = self._knowledge.matrix.rows.get(sender.id)
        begins = row is None and sender.id in self.participants
        if message.asks and (begins or (row is not None and self.me in row.closed)):
            self._spreading.tell(sender)  # it has not heard this participant yet
        else:
            self._spreading.compare(sender, message.fingerprint, answer=message.asks)

    def heard(self, peer: PeerId) -> None:
        """A participant has sent something over its channel: if that waited for its voice, it is open now."""
        if self._row.unheard.pop(peer, self) is None and peer not in self._row.suspected:
            entry = self.participants.get(peer)
            if entry is not None and self.is_joined:
                self._listener.met(entry.contact)
                self._row.renew_soon()

    def _take_entries(self, sender: Contact, message: Knowledge) -> bool:
        """Take others' entries, then look at what is said of this one; True when it was just announced."""
        has = message.has
        said = next((entry for entry in message.entries if entry.id == self.me), None)
        announced = said is not None and said.boot == self.boot and not said.left
        if not self.is_joined and (not announced or has is None):
            if said is not None and said.boot < FARTHEST_BOOT:
                self.boot = max(self.boot, said.boot)
            return False
        for entry in message.entries:
            if entry.id != self.me:
                self._take_entry(entry, sender.id)
        if said is not None and self.is_joined:
            self._correct(sender, said)
            if has is not None and said.boot == self.boot:
                self._listener.had(has)
        elif said is not None and has is not None:
            self._begin(said, has)
            return True
        return False

    def _correct(self, sender: Contact, said: Entry) -> None:
        """This participant was taken for gone, or a clock went back: announce it anew, if not yet done."""
        if said.boot >= FARTHEST_BOOT:
            return
        if said.boot > self.boot or (said.boot == self.boot and said.left):
            self.boot = said.boot
            self._announce_myself()
            self._tell_all()
        if said.stamp < self.participants[self.me].stamp:
            self._spreading.tell_of(sender, self.me)

    def _announce_myself(self) -> None:
        self.boot += 1
        has = self._listener.state.acknowledged_here()
        before = self._listener.state.without_garbage(has)
        contact = self._context.contact
        self._begin(Entry(contact, self.boot, False, 0, self.run, self.filter, before), has)

    def _begin(self, mine: Entry, has: NumbersOnWire) -> None:
        first = not self.is_joined
        self.is_joined = True
        self._knowledge.merge_entry(mine, self._context.now())
        self._spreading.changed(NewsItem(Kind.ENTRY, self.me))
        if first:
            self._row.unheard.update(dict.fromkeys(p for p in self.participants if p != self.me))
            self._spreading.start()
        self._row.begin(self.boot)
        self._listener.joined(mine, has)
        self._views.look_again()

    def _greet_all(self) -> None:
        """Ask everybody to answer, who know each other already: tell them of this participant alone."""
        others = [entry.contact for peer, entry in self.participants.items() if peer != self.me]
        for contact in others:
            self._spreading.news.told(contact.id)
        self._spreading.changed(NewsItem(Kind.ENTRY, self.me))
        for contact in others:
            self._spreading.tell(contact, asks=True)
        self._views.look_again()

    # Knowledge.

    def _take_entry(self, entry: Entry, learned_from: PeerId | None) -> None:
        before = self.participants.get(entry.id)
        known = self._knowledge.roster.get(entry.id)
        if before is None and not entry.left and (known is None or known.stamp < entry.stamp):
            self._make_room()
        if not self._knowledge.merge_entry(entry, self._context.now()):
            return
        self._spreading.changed(NewsItem(Kind.ENTRY, entry.id), learned_from)
        if before is not None and (entry.left or before.contact != entry.contact):
            self._context.unwatch(before.contact)
        if entry.id == self.me:
            return
        if entry.left:
            self._take_departure(before, entry, learned_from)
        else:
            self._take_arrival(before, entry, learned_from, is_new=known is None)

    def _take_departure(
        self, before: Entry | None, entry: Entry, learned_from: PeerId | None
    ) -> None:
        said_by_others = before is not None and learned_from not in (None, entry.id)
        if said_by_others and entry.id not in self._row.suspected:
            self._spreading.tell(entry.contact)  # it may not have left, and announce itself anew
        for noted in (self._row.suspected, self._row.unheard, self._sponsored):
            noted.pop(entry.id, None)
        self._spreading.news.forget(entry.id)
        if self.is_joined:
            # So that no fingerprint from before it came is seen again.
            self._row.renew(self.boot, anyway=True)
        self._listener.changed(before, entry)

    def _take_arrival(
        self, before: Entry | None, entry: Entry, learned_from: PeerId | None, *, is_new: bool
    ) -> None:
        """Another participant takes part, in a boot or with a filter that was not known."""
        began = before is None or before.boot != entry.boot
        if before is None or before.contact != entry.contact:
            self._row.suspected.pop(entry.id, None)  # the failure detector begins anew, too
            self._context.watch(entry.contact)
        if began:
            self._row.unheard.pop(entry.id, None)
        if is_new:
            self._listener.appeared(entry)
        had = None
        if began and before is not None and before.run != entry.run:
            had = self._listener.state.acknowledged_by(entry.id)  # without a log, it has forgotten
        self._listener.changed(before, entry)
        if began and self.is_joined:
            self._row.renew(self.boot)
            if learned_from is not None and learned_from != entry.id:
                self._spreading.news.told(entry.id)  # its sponsor tells it everything
            elif learned_from is not None and had is not None:
                self._spreading.tell_everything(entry.contact, has=had)
            if self.can_talk_to(entry.id):
                self._listener.met(entry.contact)

    def _make_room(self) -> None:
        """Where the topic is full, count the participant as having left that is suspected for longest."""
        if self._knowledge.roster.is_full:
            gone = next((peer for peer in self._row.suspected if peer in self.participants), None)
            if gone is not None:
                self.expel(gone)

    def _row_is_due(self) -> None:
        self._forget_those_who_left()
        if self.is_joined:
            self._row.renew(self.boot)
            self._views.look_again()
            for peer in list(self._row.unheard):
                if peer not in self._row.suspected:  # it answers, for the row says unheard
                    self._spreading.tell(self.participants[peer].contact, asks=True)

    def _open_peers(self) -> list[Contact]:
        return [
            entry.contact
            for peer, entry in self.participants.items()
            if peer != self.me and peer not in self._row.suspected
        ]

    def _tell_all(self, besides: PeerId | None = None) -> None:
        for contact in self._open_peers():
            if contact.id != besides:
                self._spreading.tell(contact, always=False)

    def _forget_those_who_left(self) -> None:
        before = self._context.now() - REMEMBER_LEFT
        for peer in self._knowledge.roster.forget_left(before):
            self._spreading.news.gone(NewsItem(Kind.ENTRY, peer))
