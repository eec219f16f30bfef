"""Dissemination that sends a block of events once and only names it elsewhere.

A process that gets a block for the first time passes it on to every member that eager gossip would. But a
member that has a run's events from elsewhere is not sent them: it is told the events' numbers, as ranges,
and fetches what does not come (after Plumtree: Leitao, Pereira, Rodrigues, 2007). A member that was sent
events by a way that may lose them, or that was too far behind to be sent them, is told their numbers, too.

At first every link carries the events of a publisher's run. A process that is sent an event a second time
asks the sender to *prune* the link: from then on the sender only announces events to it, also those that have
not left yet. One link is never pruned, that from the process's *parent*: the publisher if it sends to the
process directly, else the process from which the run's first event came. A process whose parent is the
publisher need not ask: the hops of what it sends show that to those that send to it, and they prune the link
themselves. The links that carry events become a tree of first arrivals with the publisher at its root.

An event that was announced and has not come is fetched from the member that announced it. If no other event
of the run has come of late, the parent is taken for gone: the member that is asked goes on sending the run's
events, and becomes the parent.

What is promised is what eager gossip promises, and by the same argument: each process tells everyone whom it
would have sent an event to, or sends the event over an acknowledged channel, which is as sure as to tell. So
everyone who would have received an event hears of it, and so do those for whom it was lost on the way. They
get it as long as one of those who announced it is alive, a member, and has kept it. Each keeps the latest
blocks for `keep_seconds`, or as many as fit `keep_bytes`. A crash costs those behind it in the tree
`announce_delay`, or five times that while events keep coming, `fetch_delay` and a round trip, once.
Announcements, like events, go only to those who promise to be members.

Into a super-community events come at several places at once, so no tree suits them all: there, and if its
publisher asked for it, an event is gossiped eagerly. All processes of a community must know this strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.camcast.gossip import EagerGossip, Outlook
from pubsub.camcast.heard import Ranges, read_ranges
from pubsub.camcast.messages import AnnounceBlocks, FetchBlocks, Prune
from pubsub.camcast.observer import ONE
from pubsub.camcast.repair import KeptBlocks, MissingEvents
from pubsub.event import Gossip
from pubsub.reliable.numbers import Numbers

if TYPE_CHECKING:
    from pubsub.camcast.community import Community

RUNS = 1024
"""Publishers' runs that are followed at a time in a community; the one silent for longest is forgotten."""

PRUNE_AGAIN_SECONDS = 1.0
"""A link that goes on sending events that are known is asked again to stop after this many seconds."""

FLOW_DELAYS = 5.0
"""While events keep coming, their numbers are gathered for this many times `announce_delay`: who misses one
does not ask for it before the others have stopped coming, or a gap has shown. And announcements wake all
members at a time at which events are under way."""

SPREAD_PART = 0.1
"""How much earlier a member announces, at most, as a part of that time. Each has a part of its own: members
that are sent the same events would announce them all at once, and wake everyone."""

MOST_LINKS = 1024
"""Members of which it is remembered, for a run, whether they are sent its events; the one that was heard of
longest ago is forgotten, and is a member as any other then."""

MOST_PRUNES = 1024
"""Members of whom it is remembered that they were asked; then it begins anew."""


class _Route:
    """Where a run's events go from here: some members are sent them, and the others are told of them."""

    __slots__ = ("doubtful", "has_news", "known_to", "news", "outlook", "sent", "told")

    def __init__(self, outlook: Outlook, known_to: PeerId | None) -> None:
        self.outlook = outlook
        self.known_to = known_to
        self.sent: list[Contact] = []
        self.told: list[Contact] = []
        self.has_news = False
        self.forget_news()

    def forget_news(self) -> None:
        self.news: list[range] = []
        """What the members that are told are told next, in the order in which it came."""
        self.doubtful: list[range] = []
        """The part of it that may not have reached those that were sent it: they are told, too."""


class _Run:
    """One run of a publisher, as this process sees it."""

    __slots__ = (
        "children",
        "heard_at",
        "newest",
        "oldest",
        "parent",
        "prunes",
        "route",
        "seen",
        "wants",
    )

    def __init__(self) -> None:
        self.parent: PeerId | None = None
        """The member whose link is never pruned; None for one's own run."""
        self.wants: dict[PeerId, bool] = {}
        """Members that are to be sent this run's events, or not to be; of others it is not known yet."""
        self.children: dict[PeerId, Contact] = {}
        """Members that were drawn, or asked, to be sent them, in this order; some have left the table."""
        self.seen: set[PeerId] = set()
        """Those in the table when members were last drawn."""
        self.prunes: dict[PeerId, float] = {}
        """When members were asked not to send them."""
        self.route: _Route | None = None
        self.heard_at = 0.0
        self.oldest, self.newest = 0, -1
        """Every event with a number between these, both included, has been heard of."""


class LazyGossip(EagerGossip):
    """The strategy of one community on one process."""

    def __init__(self, community: Community) -> None:
        super().__init__(community)
        self._context = community.context
        self._topic = community.name
        self._runs: dict[bytes, _Run] = {}
        parameters = community.parameters
        self._kept = KeptBlocks(parameters.keep_bytes, parameters.keep_seconds)
        self._missing = MissingEvents(community, self._latest)
        self._news: list[tuple[bytes, _Route]] = []
        self._timer: Timer | None = None
        self._announced_at = -inf
        # By its id: likely it is another one than the other members have.
        self._share_of_delay = 1 - SPREAD_PART * self._context.contact.id[0] / 256
        metrics = community.metrics
        self._announced = metrics.counter("events_announced", "Ids of events announced.")
        self._fetched = metrics.counter(
            "events_fetched", "Events sent to members that asked for them."
        )
        self._not_kept = metrics.counter("events_not_kept", "Events asked for and kept no longer.")
        self._pruned = metrics.counter("links_pruned", "Times that a member asked only to be told.")

    def spread(self, gossip: Gossip, sender: Contact | None) -> Sequence[Contact]:
        block = gossip.block
        if block.eager or block.topic != self._topic:
            return super().spread(gossip, sender)
        run = self._runs.pop(block.source, None) or self._new_run()
        self._runs[block.source] = run  # last again: the order is that of the latest news
        if sender is not None:
            if run.parent != sender.id or self._missing.asked:
                self._came_from(run, gossip, sender)
            if 0 < run.newest < block.first - 1:
                # Likely the sender has what is missing before, whether or not it was announced.
                gap = range(run.newest + 1, block.first)
                self._missing.skipped(block.source, gap, sender)
        now = self._context.now()
        route = run.route
        known_to = None if sender is None else sender.id
        outlook = self._community.outlook(now)
        if route is None or route.outlook is not outlook or route.known_to != known_to:
            route = self._draw_route(run, outlook, block.publisher, known_to)
        sent = route.sent
        is_sure = not sent or self._community.forward(sent, gossip)
        run.heard_at = now
        first = block.first
        if first > run.newest:
            if first > run.newest + 1:
                run.oldest = first
            run.newest = first + block.count - 1
        self._kept.add(gossip, now)
        if route.told or not is_sure:
            numbers = range(first, first + block.count)
            self._have_announced(block.source, route, numbers, is_sure, now)
        return sent

    def _have_announced(
        self, source: bytes, route: _Route, numbers: range, is_sure: bool, now: float
    ) -> None:
        """Have events announced before long."""
        if not route.has_news:
            route.has_news = True
            self._news.append((source, route))
        news = route.news
        if news and news[-1].stop == numbers.start:
            news[-1] = range(news[-1].start, numbers.stop)
        else:
            news.append(numbers)
        if not is_sure:
            route.doubtful.append(numbers)
        if self._timer is None:
            delay = self._community.parameters.announce_delay
            if now < self._announced_at + delay:
                delay *= FLOW_DELAYS * self._share_of_delay
            self._timer = self._context.call_later(delay, self._announce)

    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None:
        run = self._runs.get(source)
        if run is None or run.parent == sender.id:
            return
        if hops <= 1:
            run.parent = sender.id  # the publisher itself
            return
        if hops == 2 and run.wants.get(sender.id) is None:
            # The sender is sent the events by the publisher itself, and will ask not to be sent them.
            self._stop_sending(source, run, sender)
        now = self._context.now()
        asked = run.prunes.get(sender.id)
        if asked is None or now >= asked + PRUNE_AGAIN_SECONDS:
            if len(run.prunes) >= MOST_PRUNES:
                run.prunes.clear()
            run.prunes[sender.id] = now
            self._context.send(sender, Prune(self._topic, source))

    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        if isinstance(message, Prune):
            self._receive_prune(sender, message)
            return
        ranges = read_ranges(message.source, message.ranges)
        if ranges is None:
            self._community.give_up(None, ONE, "malformed_event")
        elif isinstance(message, AnnounceBlocks):
            for numbers in ranges:
                self._receive_announcement(sender, message.source, numbers)
        else:
            self._receive_fetch(sender, message, ranges)

    def gone(self, peer: PeerId) -> None:
        for run in self._runs.values():
            run.wants.pop(peer, None)
            if run.children.pop(peer, None) is not None:
                run.route = None

    def reconfigure(self) -> None:
        parameters = self._community.parameters
        self._kept.resize(parameters.keep_bytes, parameters.keep_seconds)

    def stop(self) -> None:
        """Announce what is not announced yet; no timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._announce()
        self._missing.stop()

    # Runs, and the links that carry them.

    def _new_run(self) -> _Run:
        if len(self._runs) >= RUNS:
            del self._runs[next(iter(self._runs))]
        return _Run()

    def _came_from(self, run: _Run, gossip: Gossip, sender: Contact) -> None:
        """Settle who is the parent: the publisher itself, else the first to send, or the member that was
        asked."""
        was_asked = False
        if self._missing.asked:
            block = gossip.block
            was_asked = self._missing.came(block.source, block.numbers) == sender
        if run.parent is None or was_asked or gossip.hops == 2:
            run.parent = sender.id
            run.prunes.pop(sender.id, None)

    def _draw_route(
        self, run: _Run, outlook: Outlook, publisher: PeerId, known_to: PeerId | None
    ) -> _Route:
        """The run's route, made anew when the table, the fanout or the side it comes from has changed.

        Who was sent the run's events before goes on being sent them, even when it has left the table, until
        it asks not to be or is no longer a member: who is dropped has to find out by itself, and has all that
        comes until then late. As many as the fanout may be sent them who are not in the table."""
        table, fanout = outlook
        route = run.route = _Route(outlook, known_to)
        wants = run.wants
        known = {member.id for member in table}
        children = {p: child for p, child in run.children.items() if wants.get(p, True)}
        outside = [child for peer, child in children.items() if peer not in known]
        for child in outside[: max(len(outside) - fanout, 0)]:
            del children[child.id]
        candidates = [
            member
            for member in (*table, *outside[-fanout:])
            if member.id != known_to and member.id != publisher
        ]
        free = {m.id: m for m in candidates if m.id in known and m.id not in wants}
        sent = [free.pop(peer) for peer in children if peer in free][:fanout]
        room = fanout - len(sent)
        drawn = self._draw([m for m in free.values() if m.id not in run.seen], room)
        # Who has asked not to be sent them counts: the others likely have them from elsewhere, too.
        room -= len(drawn) + sum(wants.get(peer) is False for peer in known)
        drawn += self._draw([m for m in free.values() if m.id in run.seen], room)
        run.seen = known
        run.children = children | {member.id: member for member in drawn}
        asked = [m for m in candidates if m.id not in known or wants.get(m.id)]
        route.sent = sent + drawn + asked
        is_sent = {member.id for member in route.sent}
        route.told = [member for member in candidates if member.id not in is_sent]
        return route

    def _draw(self, members: list[Contact], most: int) -> list[Contact]:
        if len(members) <= most:
            return members
        return self._community.random.sample(members, max(most, 0))

    def _table(self) -> tuple[Contact, ...]:
        return self._community.outlook(self._context.now()).table

    def _receive_prune(self, sender: Contact, prune: Prune) -> None:
        run = self._runs.get(prune.source)
        if run is not None and (
            sender.id in run.children or any(member.id == sender.id for member in self._table())
        ):
            self._pruned.value += 1
            self._stop_sending(prune.source, run, sender)

    def _stop_sending(self, source: bytes, run: _Run, member: Contact) -> None:
        """Only tell a member of the run's events from now on, and of those that have not left for it."""
        if run.wants.get(member.id) is not False:
            remember(run.wants, member.id, False, MOST_LINKS)
            run.route = None
            self._tell((member,), source, self._community.withdraw(member, source))

    # Announcing, and fetching.

    def _announce(self) -> None:
        self._timer = None
        self._announced_at = self._context.now()
        news, self._news = self._news, []
        for source, route in news:
            told = ((route.told, route.news), (route.sent, route.doubtful))
            route.has_news = False
            route.forget_news()
            for members, ranges in told:
                if members:
                    self._tell(members, source, ranges)

    def _tell(self, members: Sequence[Contact], source: bytes, numbers: list[range]) -> None:
        numbers.sort(key=_start)
        for part in Ranges(numbers).parts():
            self._community.announce(members, AnnounceBlocks(self._topic, source, part))
            self._announced.value += sum(part[1::2]) * len(members)

    def _receive_announcement(self, sender: Contact, source: bytes, numbers: range) -> None:
        run = self._runs.get(source)
        if run is None or numbers.start < run.oldest or numbers.stop - 1 > run.newest:
            self._missing.announced(source, numbers, sender)

    def _latest(self, source: bytes) -> tuple[float, int]:
        """When the latest event of a source came, and its number."""
        run = self._runs.get(source)
        return (-inf, -1) if run is None else (run.heard_at, run.newest)

    def _receive_fetch(self, sender: Contact, fetch: FetchBlocks, ranges: Sequence[range]) -> None:
        source = fetch.source
        run = self._runs.get(source)
        if fetch.go_on and run is not None and not run.wants.get(sender.id):
            remember(run.wants, sender.id, True, MOST_LINKS)
            remember(run.children, sender.id, sender, MOST_LINKS)
            run.route = None
        asked, found = Numbers(most=None), Numbers(most=None)
        for numbers in ranges:
            asked.add_span(numbers.start, numbers.stop - 1)
        for first, last in asked.spans():
            numbers = range(first, last + 1)
            for gossip in self._kept.with_any_of(source, numbers):
                stretch = gossip.block.numbers
                if found.missing(stretch.start, stretch.stop):
                    found.add_span(stretch.start, stretch.stop - 1)
                    self._fetched.value += len(stretch)
                    self._community.forward((sender,), gossip._replace(asked_for=True))
            for gap in found.missing(numbers.start, numbers.stop):
                self._not_kept.value += len(gap)


def _start(numbers: range) -> int:
    return numbers.start
