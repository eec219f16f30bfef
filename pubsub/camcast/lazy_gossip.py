"""Dissemination that sends an event once and only names it elsewhere.

Whoever has an event for the first time passes it on to every member that eager gossip would. But a member
that has a run's events from elsewhere is not sent them. All members of the table are told the events' ids,
many at a time, and fetch what does not come (after Plumtree: Leitao, Pereira, Rodrigues, 2007).

At first every link carries the events of a publisher's run. A process that is sent one a second time asks
for that link to be *pruned*: from then on it only announces. One link is never pruned, that from the
*parent*: the publisher if it sends directly, else the process from which the run's first event came. So the
links that carry events become a tree of first arrivals with the publisher at its root. An event that was
announced and has not come is fetched from whoever announced it, who becomes the parent.

What is promised is what eager gossip promises, and by the same argument: each process tells everyone it
would have sent to, so everyone hears of an event who would have received it, and of one that was lost on the
way besides. It then gets it as long as one of those who announced it is alive, a member, and has kept it.
Each keeps the latest events for `keep_seconds`, or as many as fit `keep_bytes`. A crash costs those behind
it in the tree `announce_delay` + `fetch_delay` and a round trip, once. Announcements, like events, go only
to those who promise to be members.

Into a super-community events come at several places at once, so no tree suits them all: there, and if its
publisher asked for it, an event is gossiped eagerly. All processes of a community must know this strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.camcast.dissemination import EagerGossip, Neighbourhood
from pubsub.camcast.event_ranges import Ranges, event_id_of, read_ranges, stretches_of
from pubsub.camcast.kept_events import KeptEvents
from pubsub.camcast.messages import Announce, Fetch, Prune
from pubsub.camcast.missing_events import MissingEvents
from pubsub.event import RUN_BYTES, Gossip, NewEvent

RUNS = 1024
"""Publishers' runs that are followed at a time in a community; the one silent for longest is forgotten."""

PRUNE_AGAIN_SECONDS = 1.0
"""A link that goes on sending events that are known is asked again to stop, so often."""

MOST_PRUNES = 1024
"""Members of whom it is remembered that they were asked; then it begins anew."""


class _Route:
    """Where a run's events go from here: some members are sent them, and all are told of them."""

    __slots__ = ("fanout", "known_to", "news", "sent", "table", "told")

    def __init__(self, table: tuple[Contact, ...], fanout: int, known_to: PeerId | None) -> None:
        self.table = table
        self.fanout = fanout
        self.known_to = known_to
        self.sent: list[Contact] = []
        self.told: list[Contact] = []
        self.news = Ranges()


class _Run:
    """One run of a publisher, as this process sees it."""

    __slots__ = ("heard_at", "newest", "oldest", "parent", "prunes", "route", "wants")

    def __init__(self) -> None:
        self.parent: PeerId | None = None
        """The member whose link is never pruned; None for one's own run."""
        self.wants: dict[PeerId, bool] = {}
        """Members that asked to be sent this run's events, or not to be; of others it is not known yet."""
        self.prunes: dict[PeerId, float] = {}
        """When members were asked not to send them."""
        self.route: _Route | None = None
        self.heard_at = 0.0
        self.oldest, self.newest = 0, -1
        """Every event with a number between these, both included, has been heard of."""

    def heard(self, numbers: Iterable[range], now: float) -> None:
        self.heard_at = now
        for stretch in numbers:
            if stretch.start == self.newest + 1:
                self.newest = stretch.stop - 1
            elif stretch.start > self.newest:
                self.oldest, self.newest = stretch.start, stretch.stop - 1


class LazyGossip:
    """The strategy of one community on one process."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        self._neighbourhood = neighbourhood
        self._eager = EagerGossip(neighbourhood)
        self._context = neighbourhood.context
        self._topic = neighbourhood.name
        self._runs: dict[bytes, _Run] = {}
        parameters = neighbourhood.parameters
        self._kept = KeptEvents(parameters.keep_bytes, parameters.keep_seconds)
        self._missing = MissingEvents(neighbourhood, self._is_coming)
        self._news: list[tuple[bytes, _Route]] = []
        self._own: list[Gossip] = []
        self._own_route: _Route | None = None
        self._timer: Timer | None = None
        metrics = neighbourhood.metrics
        self._announced = metrics.counter("events_announced", "Ids of events announced.")
        self._fetched = metrics.counter("events_fetched", "Events sent to whoever asked for them.")
        self._not_kept = metrics.counter("events_not_kept", "Events asked for and kept no longer.")
        self._pruned = metrics.counter("links_pruned", "Times that a member asked only to be told.")

    def spread(self, events: Sequence[NewEvent], sender: Contact | None) -> Sequence[Contact]:
        gossip, body = events[0]
        if len(events) == 1 and not body.eager and body.topic == self._topic:
            return self._spread(gossip.id[:RUN_BYTES], [gossip], body.publisher, sender)
        eager: list[NewEvent] = []
        lazy: dict[bytes, list[Gossip]] = {}
        publishers: dict[bytes, PeerId] = {}
        for event in events:
            gossip, body = event
            if body.eager or body.topic != self._topic:
                eager.append(event)
            else:
                run_id = gossip.id[:RUN_BYTES]
                if run_id in lazy:
                    lazy[run_id].append(gossip)
                else:
                    lazy[run_id] = [gossip]
                    publishers[run_id] = body.publisher
        sent: Sequence[Contact] = self._eager.spread(eager, sender) if eager else ()
        for run_id, gossips in lazy.items():
            sent = self._spread(run_id, gossips, publishers[run_id], sender)
        return sent

    def _spread(
        self, run_id: bytes, gossips: list[Gossip], publisher: PeerId, sender: Contact | None
    ) -> Sequence[Contact]:
        run = self._runs.get(run_id) or self._new_run(run_id)
        if sender is not None:
            self._came_from(run, gossips, sender)
        route = self._route(run, publisher, sender)
        if sender is None:
            self._own += gossips
            self._own_route = route
        else:
            self._note(run_id, run, route, gossips)
        if self._timer is None:
            delay = self._neighbourhood.parameters.announce_delay
            self._timer = self._context.call_later(delay, self._announce)
        if route.sent:
            self._neighbourhood.forward(route.sent, gossips)
        return route.sent

    def _note(self, run_id: bytes, run: _Run, route: _Route, gossips: list[Gossip]) -> None:
        """Remember and keep events, and have them announced."""
        now = self._context.now()
        stretches = stretches_of([gossip.id for gossip in gossips])
        run.heard(stretches, now)
        self._kept.add(gossips, now)
        if route.told:
            if not route.news:
                self._news.append((run_id, route))
            for stretch in stretches:
                route.news.add_range(stretch)

    def _note_own(self) -> None:
        """Catch up with the events of this process's own: they come one by one, and are noted together."""
        own, self._own = self._own, []
        if own and self._own_route is not None:
            run_id = own[0].id[:RUN_BYTES]
            run = self._runs.get(run_id) or self._new_run(run_id)
            self._note(run_id, run, self._own_route, own)

    def heard_again(self, gossip: Gossip, sender: Contact) -> None:
        run_id = gossip.id[:RUN_BYTES]
        run = self._runs.get(run_id)
        if run is None or gossip.upward or run.parent == sender.id:
            return
        if gossip.hops <= 1:
            run.parent = sender.id  # the publisher itself
            return
        now = self._context.now()
        asked = run.prunes.get(sender.id)
        if asked is None or now >= asked + PRUNE_AGAIN_SECONDS:
            if len(run.prunes) >= MOST_PRUNES:
                run.prunes.clear()
            run.prunes[sender.id] = now
            self._context.send(sender, Prune(self._topic, run_id))

    def receive(self, sender: Contact, message: Announce | Fetch | Prune) -> None:
        if isinstance(message, Prune):
            self._receive_prune(sender, message)
            return
        ranges = read_ranges(message.run, message.ranges)
        if ranges is None:
            self._neighbourhood.give_up(message.run, "malformed_event")
        elif isinstance(message, Announce):
            for numbers in ranges:
                self._receive_announcement(sender, message.run, numbers)
        else:
            for numbers in ranges:
                self._receive_fetch(sender, message.run, numbers)

    def reconfigure(self) -> None:
        parameters = self._neighbourhood.parameters
        self._kept.resize(parameters.keep_bytes, parameters.keep_seconds)

    def stop(self) -> None:
        """Announce what is not announced yet; no timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._announce()
        self._missing.stop()

    # Runs, and the links that carry them.

    def _new_run(self, run_id: bytes) -> _Run:
        if len(self._runs) >= RUNS:
            del self._runs[min(self._runs, key=lambda known: self._runs[known].heard_at)]
        run = self._runs[run_id] = _Run()
        return run

    def _came_from(self, run: _Run, gossips: list[Gossip], sender: Contact) -> None:
        """Settle who is the parent: the publisher itself, else the first to send, or whoever was asked."""
        was_asked = False
        if self._missing.are_asked_for:
            for gossip in gossips:
                was_asked = self._missing.came(gossip.id) == sender or was_asked
        if run.parent is None or was_asked or gossips[0].hops == 2:
            run.parent = sender.id
            run.prunes.pop(sender.id, None)

    def _route(self, run: _Run, publisher: PeerId, sender: Contact | None) -> _Route:
        """The run's route, drawn anew when the table, the fanout or the side it comes from has changed."""
        neighbourhood = self._neighbourhood
        known_to = None if sender is None else sender.id
        route, table, fanout = run.route, neighbourhood.table, neighbourhood.fanout
        if (
            route is not None
            and route.known_to == known_to
            and route.fanout == fanout
            and route.table == table
        ):
            return route
        route = run.route = _Route(table, fanout, known_to)
        candidates = [m for m in table if m.id != known_to and m.id != publisher]
        sent = [member for member in candidates if member.id not in run.wants]
        if len(sent) > fanout:
            sent = neighbourhood.random.sample(sent, fanout)
        route.sent = sent + [member for member in candidates if run.wants.get(member.id)]
        route.told = candidates
        return route

    def _receive_prune(self, sender: Contact, prune: Prune) -> None:
        run = self._runs.get(prune.run)
        if run is not None and any(member.id == sender.id for member in self._neighbourhood.table):
            self._pruned.value += 1
            run.wants[sender.id] = False
            run.route = None

    # Announcing, and fetching.

    def _announce(self) -> None:
        self._timer = None
        self._note_own()
        news, self._news = self._news, []
        for run_id, route in news:
            parts = route.news.parts()
            route.news = Ranges()
            for part in parts:
                self._neighbourhood.announce(route.told, Announce(self._topic, run_id, part))
                self._announced.value += sum(part[1::2]) * len(route.told)

    def _receive_announcement(self, sender: Contact, run_id: bytes, numbers: range) -> None:
        run = self._runs.get(run_id)
        if run is None or numbers.start < run.oldest or numbers.stop - 1 > run.newest:
            self._missing.announced(run_id, numbers, sender)

    def _is_coming(self, run_id: bytes, number: int, since: float) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.heard_at > since and run.newest < number

    def _receive_fetch(self, sender: Contact, run_id: bytes, numbers: range) -> None:
        self._note_own()
        run = self._runs.get(run_id)
        if run is not None and not run.wants.get(sender.id):
            run.wants[sender.id] = True
            run.route = None
        found = [self._kept.get(event_id_of(run_id, number)) for number in numbers]
        kept = [gossip for gossip in found if gossip is not None]
        self._not_kept.value += len(numbers) - len(kept)
        self._fetched.value += len(kept)
        if kept:
            self._neighbourhood.forward((sender,), kept)
