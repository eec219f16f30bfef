"""One community on one process: what figures 5 to 8 of CAMCAST describe, tied together.

A *community* is everyone who publishes or subscribes to a topic. A process takes part by keeping a topic
table (the membership service's) and its super-topic tables, and by handling each event of the topic or of a
subtopic once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from overlay.channel.buffer import Until
from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness
from overlay.membership.interface import Membership, MembershipListener
from overlay.metrics import Metrics
from overlay.wire import WireError
from pubsub.camcast.bootstrap import FindContacts, SuperSearch
from pubsub.camcast.gossip import DisseminationFactory, EagerGossip, Outlook
from pubsub.camcast.heard import HeardEvents, LostEvents, read_ranges
from pubsub.camcast.latest import LatestBlocks
from pubsub.camcast.leases import Carrier
from pubsub.camcast.links import Links, SuperTables
from pubsub.camcast.messages import (
    AnnounceBlocks,
    FetchBlocks,
    Goodbye,
    NewProcesses,
    NewProcessesAnswer,
    Prune,
)
from pubsub.camcast.observer import EventDrops, Routes
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.upward import Upward
from pubsub.event import (
    MOST_HOPS,
    Block,
    Copy,
    Gossip,
    event_ids,
    origin_of,
    read_block,
)
from pubsub.topic import Topic
from pubsub.validation import NO_RIGHT, REFUSED

if TYPE_CHECKING:
    from pubsub.camcast.process import Process
    from pubsub.trace import Trace

Deliver = Callable[[Block, int, Sequence[range]], None]
"""Takes a block, after how many hops it came, and the numbers of its events that are new here."""

MakeMembership = Callable[[str, Parameters, MembershipListener], Membership]
"""Makes the membership service of one community; which one it is, only the maker knows."""

MOST_MUTES = 1024
"""Members that only publish and are remembered as such; one that is forgotten is asked again."""

SIZE_SECONDS = 1.0
"""How long an estimate of the community's size is used for events."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a process's communities use of the world around them."""

    control: Context
    """For everything but events and leases; what is sent should arrive (an acknowledged channel)."""
    questions: Context
    """For leases, which are asked for again until they are answered; what is sent may be lost."""
    carrier: Carrier
    """For events."""
    make_membership: MakeMembership
    find_contacts: FindContacts
    draws_tables: bool
    """Whether `find_contacts` gives uniform samples, which then make the super-topic tables."""
    metrics: Metrics
    finds_all: bool = False
    """Whether `find_contacts` knows of every community, and not only of some."""
    is_light: bool = False
    """Whether this process is a light member, which leaves most of the upkeep to others."""
    trace: Trace | None = None
    watch: Callable[[Contact], None] = lambda contact: None
    """Have a member of the topic table watched by the failure detector."""
    unwatch: Callable[[Contact], None] = lambda contact: None
    refusal: Callable[[Block], str | None] | None = None
    """Why a block is to be neither delivered nor forwarded, a reason for the count of drops; None accepts
    it. Without the function all are accepted."""
    useless: Callable[[Contact], None] = lambda sender: None
    """Called with who sent a block that nobody honest sends."""
    dissemination: DisseminationFactory = EagerGossip
    may_receive: Callable[[PeerId, str], bool] = lambda peer, topic: True
    """Whether a process has the right to be sent a topic's events."""
    end_membership: Callable[[Membership], None] = lambda membership: None
    """Give back what `make_membership` gave, once it is stopped."""


class Spread(NamedTuple):
    """Where a block went from here: members of the community, and super-processes, by topic."""

    members: Sequence[Contact]
    upward: Sequence[tuple[str, Contact]]


class Community:
    """Made by `pubsub.camcast.process.Process`, which hands it the messages that concern it."""

    def __init__(
        self,
        topic: Topic,
        parameters: Parameters,
        process: Process,
        deliver: Deliver | None,
        heard: HeardEvents,
    ) -> None:
        """`heard`: what the process had before, if it was in this community."""
        services = process.services
        self.topic = topic
        self.name = topic.name
        self.deliver = deliver
        """Takes blocks with new events; None while nobody on this process wants them."""
        self._process = process
        self._communities = process.communities
        self.lost: Callable[[int], None] = lambda count: None
        """Told how many events of the community were lost: heard of, and not to be had. Less than 0: how many
        have come after all."""
        self._lost = LostEvents()
        self._parameters = parameters
        self._services = services
        self._leases = process.leases
        self._context = services.control
        self._trace = services.trace
        self.heard = heard
        self.events = 0
        """How many events have come, or were published here."""
        self.latest = LatestBlocks()
        """The last values, for those who come later."""
        self.routes = Routes()
        self._mutes: dict[PeerId, None] = {}
        self._outlook = Outlook((), 0)
        self._size, self._outlook_until = 1.0, 0.0
        """As long as nobody enters or leaves the table, these are as they were until this time."""
        self._refusal = services.refusal
        self._waiting: list[Callable[[], None]] = []
        self.goodbyes = Until(inf)
        """Until when goodbyes to members may be sent, or sent again."""
        self._joined = self._warmed = self._searched = self._stopped = False
        metrics = services.metrics
        self._received = metrics.counter("events_received", "Copies of events received.")
        self._duplicates = metrics.counter("events_duplicate", "Copies of events known already.")
        self._drops = EventDrops(metrics, services.trace)
        self._make_parts(services)

    def _make_parts(self, services: Services) -> None:
        self._super_processes = 0
        """Entries of all super-topic tables."""
        self._watches_supers = services.draws_tables
        """Tables that are passed on among members are soon corrected by what these have confirmed."""
        self.super_tables = SuperTables(
            self.topic, self._communities.__contains__, self._super_table_changed
        )
        self.links = Links(self, services, self._leases, self.super_tables, self._start_search)
        self.search = SuperSearch(self, services, self.links, self._search_over)
        self.membership = services.make_membership(self.name, self._parameters, self)
        self._dissemination = services.dissemination(self)
        self._upward = Upward(self, self.super_tables, self._leases)

    # What the parts of this community see of it.

    @property
    def parameters(self) -> Parameters:
        return self._parameters

    @parameters.setter
    def parameters(self, parameters: Parameters) -> None:
        """Change the parameters while running; timers that are set keep their time."""
        if parameters.c != self._parameters.c:
            self.membership.reconfigure(parameters.c)
        self._parameters = parameters
        self._dissemination.reconfigure()
        self._outlook_until = 0.0
        self.heard.resize(parameters.duplicate_lifetime, parameters.duplicate_capacity)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def metrics(self) -> Metrics:
        return self._services.metrics

    @property
    def random(self) -> Randomness:
        return self._context.random

    @property
    def size(self) -> float:
        """N, as the membership service estimates it."""
        return self.membership.size

    @property
    def table(self) -> tuple[Contact, ...]:
        """The topic table, without members that may only publish."""
        return self.outlook(self._context.now()).table

    def outlook(self, now: float) -> Outlook:
        """The topic table and the fanout; the same object for as long as neither has changed."""
        if now >= self._outlook_until:
            self._look_around(now)
        return self._outlook

    def _look_around(self, now: float) -> None:
        self._outlook_until = now + SIZE_SECONDS
        table = self.membership.table
        if self._mutes:
            table = tuple(one for one in table if one.id not in self._mutes)
        self._size = self.size
        outlook = Outlook(table, self._parameters.fanout(self._size))
        if outlook != self._outlook:
            self._outlook = outlook

    def mute(self, peer: PeerId) -> None:
        """A member has no right to receive: it is sent nothing, and counts for nothing but its own events."""
        self._mutes[peer] = None
        if len(self._mutes) > MOST_MUTES:
            del self._mutes[next(iter(self._mutes))]
        self._outlook_until = 0.0
        self._dissemination.gone(peer)

    @property
    def steady_size(self) -> float:
        """The size as of the last second: an estimate that every event need not draw anew."""
        self.outlook(self._context.now())
        return self._size

    # Joining and leaving.

    def start(self) -> None:
        self.record("join")
        self.links.start()
        self.membership.start()

    def stop(self) -> None:
        """Leave: say goodbye to those in the topic table and withdraw; no timer is left.

        Who comes back ends `goodbyes`: one that was lost and is sent again would be taken for a new one."""
        self._stopped = True
        self._dissemination.stop()
        for member in self.membership.table:
            self._services.carrier.tell(member, Goodbye(self.name), self.goodbyes)
            self._services.unwatch(member)
        if self._watches_supers:
            for process in self.super_tables.contacts:
                self._services.unwatch(process)
        self.links.stop()
        self.search.stop()
        self.membership.stop()
        self._services.end_membership(self.membership)
        self.record("leave")

    def learn(self, topic: Topic) -> None:
        """The topic has other super-topics than was known; it is not ready until they were looked for."""
        self.topic = topic
        self.super_tables.learn(topic)
        self._searched = False
        self._start_search()

    @property
    def is_ready(self) -> bool:
        """Joined, the topic table confirmed, and the first search for super-communities over."""
        return self._joined and self._warmed and self._searched

    def when_ready(self, action: Callable[[], None]) -> None:
        """Run `action` once the community is ready; at once if it is."""
        if self.is_ready:
            action()
        else:
            self._waiting.append(action)

    def joined(self) -> None:
        if self._joined or self._stopped:
            return
        self._joined = True
        self._start_search()
        unconfirmed = len(self.table)

        def warmed(_: bool) -> None:
            nonlocal unconfirmed
            unconfirmed -= 1
            if unconfirmed <= 0:
                self._warmed = True
                self._check_ready()

        for member in self.table:
            self._leases.warm(member, self.name, warmed)
        if not self.table:
            warmed(True)

    def redrawn(self) -> None:
        if self._joined:
            self.search.redraw()

    def member_asked(self, contact: Contact) -> None:
        self._leases.warm(contact, self.name, _ignore)

    def member_added(self, contact: Contact) -> None:
        self._outlook_until = 0.0
        self.record("table", peer=contact.id, detail="added")
        self._services.watch(contact)
        self._leases.warm(contact, self.name, _ignore)

    def member_removed(self, contact: Contact) -> None:
        self._outlook_until = 0.0
        self.record("table", peer=contact.id, detail="removed")
        if not self._stopped:
            self._services.unwatch(contact)

    def _super_table_changed(self, super_topic: str, contact: Contact, entered: bool) -> None:
        self._super_processes += 1 if entered else -1
        if self._watches_supers and not self._stopped:
            (self._services.watch if entered else self._services.unwatch)(contact)
        detail = f"{'added' if entered else 'removed'} super {super_topic}"
        self.record("table", peer=contact.id, detail=detail)

    def gone(self, peer: PeerId, topic: str | None = None) -> None:
        """A process is not in `topic`, or in no topic at all (it is believed to have crashed)."""
        if topic in (None, self.name):
            self.membership.suspect(peer)
            self._dissemination.gone(peer)
        self.links.lost(peer, topic)

    def receive_new_processes(self, sender: Contact, question: NewProcesses) -> None:
        """Name some members of this community to a process that has it as its super-community."""
        members = [member for member in self.table if member.id != sender.id]
        count = max(0, min(question.count, len(members), self._parameters.z))
        named = tuple(self.random.sample(members, count))
        self._context.send(sender, NewProcessesAnswer(self.name, named))

    # Events.

    def forward(self, to: Sequence[Contact], gossip: Gossip) -> bool:
        """Send a copy of the block to each of these members of the community.

        Whether each has left, and arrives unless the member is gone."""
        if self._trace is not None:
            block, hops = gossip.block, gossip.hops
            for member in to:
                self.record("send", block.source, (block.numbers,), peer=member.id, hops=hops)
        return self._leases.send(to, gossip)

    def withdraw(self, to: Contact, source: bytes) -> list[range]:
        """Take back copies of a run's blocks that have not left for a member: of which events."""
        return self._services.carrier.withdraw(to, self.name, source)

    def announce(self, to: Sequence[Contact], announcement: AnnounceBlocks) -> None:
        """Tell each of these members of events, once it is sure that it is one."""
        if self._trace is not None:
            numbers = read_ranges(announcement.source, announcement.ranges)
            assert numbers is not None
            for member in to:
                self.record("announce", announcement.source, numbers, peer=member.id)
        for member in to:
            self._leases.warm(member, self.name, partial(self._tell, member, announcement))

    def _tell(self, member: Contact, announcement: AnnounceBlocks, is_member: bool) -> None:
        if is_member:
            self._leases.tell(member, self.name, announcement)

    def missing(self, source: bytes, numbers: range) -> Sequence[range]:
        """Which of these events this process has not had."""
        return self.heard.missing(source, numbers.start, len(numbers))

    def give_up(self, source: bytes | None, numbers: Sequence[range], reason: str) -> None:
        """Count events, or what a peer says of them, that are dropped."""
        self._drops.add(reason, self.name, source, numbers)

    def lose(self, source: bytes, numbers: Sequence[range], reason: str) -> None:
        """Count events that this process has heard of and will not get, and tell the subscriptions."""
        new = self._lost.add(source, numbers)
        if new:  # several may have announced what nobody kept
            self._drops.add(reason, self.name, source, new)
            self.lost(sum(map(len, new)))

    def receive_about_events(
        self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune
    ) -> None:
        """What another process's dissemination strategy says to this one's."""
        self._dissemination.receive(sender, message)

    def publish(self, block: Block) -> Spread:
        """Disseminate a block of this process's own events."""
        if self._trace is not None:
            self.record("publish", block.source, (block.numbers,))
        return Spread(*self._take(block, 0, (block.numbers,), None, True))

    def receive(self, sender: Contact, copy: Copy) -> None:
        """A copy of a block: each of its events is taken the first time (figure 7)."""
        origin = origin_of(copy.block)
        if origin is None or copy.hops < 0:
            self._received.value += 1
            self._drops.add("malformed_event", self.name, peer=sender.id)
            return
        source, first, count = origin
        self._received.value += count
        new = self.heard.missing(source, first, count)
        if not new:
            self._duplicates.value += count
            self._receive_again(sender, copy, source, range(first, first + count))
            return
        try:
            block = read_block(copy.block, self.name, copy.signature, origin)
            if self._refusal is not None and (reason := self._refusal(block)) is not None:
                raise WireError(reason)
        except WireError as error:
            self._refuse(sender, source, range(first, first + count), error.reason)
            return
        if len(new[0]) < count:
            self._duplicates.value += count - sum(map(len, new))
        if self._lost.sources and (after_all := self._lost.count(source, new)):
            self.lost(-after_all)
        if self._trace is not None:
            known = [range(n, n + 1) for n in block.numbers if not any(n in part for part in new)]
            self.record("receive", source, new, peer=sender.id, hops=copy.hops)
            self.record("duplicate", source, known, peer=sender.id, hops=copy.hops)
        self._take(block, min(copy.hops, MOST_HOPS), new, sender, copy.upward)

    def _receive_again(self, sender: Contact, copy: Copy, source: bytes, numbers: range) -> None:
        self.record("duplicate", source, (numbers,), peer=sender.id, hops=copy.hops)
        if not copy.upward:
            self._dissemination.heard_again(source, copy.hops, sender)

    def _refuse(self, sender: Contact, source: bytes, numbers: range, reason: str) -> None:
        """Count a copy whose block is not to be taken."""
        self._drops.add(reason, self.name, source, (numbers,), sender.id)
        if reason == REFUSED:
            # It need not be fetched, nor be asked about again. A forged block is another matter: the true one
            # may still come.
            self.heard.add(source, numbers.start, len(numbers), self._context.now())
        elif reason != NO_RIGHT:
            self._services.useless(sender)  # honest members check what they pass on

    def receive_own(self, block: Block, hops: int) -> None:
        """A block that reached this process in a subtopic's community: it is its own link."""
        new = self.heard.missing(block.source, block.first, block.count)
        if new:
            self.record("receive", block.source, new, hops=hops)
            self._take(block, hops, new, None, True)

    def _take(
        self,
        block: Block,
        hops: int,
        new: Sequence[range],
        sender: Contact | None,
        from_outside: bool,
    ) -> tuple[Sequence[Contact], Sequence[tuple[str, Contact]]]:
        """Pass on and deliver a block with events that are new here: where it went, as in a `Spread`."""
        now = self._context.now()
        # First: what is handed up to an own super-community must not come back as new.
        self.heard.add(block.source, block.first, block.count, now)
        gossip = Gossip(block, self.name, hops + 1)
        upward = self._upward.send(gossip, from_outside) if self._super_processes else ()
        members = self._dissemination.spread(gossip, sender)
        if self.deliver is not None:
            self.deliver(block, hops, new)
        if len(self._communities) > 1:
            self._process.hand_up(self.name, block, hops)
        self.events += block.count
        self.latest.add(block, now)
        self.routes.add(block.source, block.first, sender, hops, now)
        return members, upward

    def _start_search(self) -> None:
        if self._joined:
            self.search.start()

    def _search_over(self) -> None:
        self._searched = True
        self._check_ready()

    def _check_ready(self) -> None:
        if self.is_ready:
            waiting, self._waiting = self._waiting, []
            for action in waiting:
                action()

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def record(
        self,
        kind: str,
        source: bytes | None = None,
        numbers: Sequence[range] = (),
        *,
        peer: PeerId | None = None,
        hops: int | None = None,
        detail: str | None = None,
    ) -> None:
        """A row in the trace, if there is one, for each of these events; one row for what names none."""
        if self._trace is not None:
            for event in (None,) if source is None else event_ids(source, numbers):
                self._trace.record(
                    kind, self.name, event=event, peer=peer, hops=hops, detail=detail
                )


def _ignore(_: bool) -> None:
    pass
