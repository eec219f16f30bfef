"""A distributor (section 2): takes messages from publishers, shares them with the other distributors, and
sends them to its local subscribers.

Promised, whatever the network loses, repeats and reorders, and however views change: a message that reaches
one correct distributor reaches every correct distributor of its view; each distributor takes a source's
messages in order; a local subscriber that stays up, and whose distributor does, gets them all. What
happens when memory runs out is said at `DistributorConfig.buffer_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.metrics import Metrics
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import (
    Alive,
    ClientAction,
    ClientAnswer,
    ClientRequest,
    Digest,
    ListServices,
    Prepare,
    Propose,
    PublicationAck,
    Raise,
    ServiceBlock,
    ServiceList,
    SpreadBlocks,
    StreamAck,
    ViewHello,
    Vote,
    Want,
)
from pubsub.distributors.protocol.exchange import DistributorExchange, History, NoHistory, Recall
from pubsub.distributors.protocol.fanout import (
    HEAD_BYTES,
    LEAST_PACE,
    REQUESTS_OF_A_LIFE,
    Fanout,
)
from pubsub.distributors.protocol.membership import DistributorMembership
from pubsub.distributors.protocol.service import Service, Stability
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.distributors.protocol.upward import RaisingUp
from pubsub.distributors.protocol.view import NO_GROUP, View
from pubsub.reliable.runs import is_source, publisher_of

REMEMBER_REMOVED = 600.0
"""Seconds for which a service that was removed is known to be: a distributor that was away for longer brings
it back."""

MOST_SERVICES = 4096
"""Services of one distributor."""

LATEST_VERSION = 1 << 62
"""A version that is believed is lower."""

CATCHING_UP = 5.0
"""Seconds after which a newcomer serves clients though it still lacks what others have."""

LISTED_AT_ONCE = 256
"""Names of services in one answer, each of at most 255 characters."""

MOST_ANSWERED = 16_384
"""Sources in the answer to a subscriber, about 600 KB."""

SMALL_ANSWER = 16
"""Sources in an answer that surely fits a datagram; larger ones go over the channel."""

DROPPED = ("distributor_dropped", "reason", "Messages of others that were not taken")
"""A family of counters: its name, its label and what it counts."""


class DistributorCore:
    """One distributor. `tick` is to be called every `DistributorConfig.tick` seconds, and `pump` after each
    call of `wake`, again and again until it has nothing to send."""

    def __init__(
        self,
        peers: Context,
        clients: Context,
        config: DistributorConfig,
        datagram: int,
        *,
        history: History | None = None,
        metrics: Metrics | None = None,
        wake: Callable[[], None] = lambda: None,
        on_view: Callable[[View], None] = lambda view: None,
        on_taken: Callable[[ServiceBlock], None] = lambda block: None,
    ) -> None:
        """`peers` sends to distributors, `clients` to publishers and subscribers; both may lose messages.

        `datagram`: bytes of a message that `clients` carries. `metrics` counts what is dropped. `on_taken` is
        called with every new block in its turn, wherever it came from."""
        self.config = config
        self.services: dict[str, Service] = {}
        self.dropped = (metrics or Metrics()).family(*DROPPED)
        self.membership = DistributorMembership(peers, config, self._view_changed)
        self._peers = peers
        self._clients = clients
        self._datagram = datagram
        self._stability = Stability(peers.contact.id, config.no_gap_patience)
        run = self.membership.me.run
        self._removed: dict[str, tuple[int, float]] = {}
        """Services that are removed: their versions, and since when."""
        self._exchange = DistributorExchange(
            peers, run, self.services, self._removed, self._stability
        )
        self.upward = RaisingUp(peers, self.services, lambda name: self.above(name), self.rank)
        self.above: Callable[[str], Contact | None] = lambda name: None
        """The distributor of the group above that serves this one, by service."""
        self.below: frozenset[PeerId] = frozenset()
        """The distributors of the groups below, which may bring messages of their publishers."""
        self.history = history or NoHistory()
        self._recall = Recall(clients, self.history, datagram)
        self._by_stream: dict[int, Service] = {}
        self._wake = wake
        self._on_view = on_view
        self._on_taken = on_taken
        self._joined_at: float | None = None
        self._is_ready = False
        self._is_leaving = False
        self._busy: dict[str, Service] = {}
        """The services that have something to send, the one whose turn it is first."""
        self.handlers: dict[type, Callable[[Contact, Any], None]] = {
            ViewHello: self.membership.receive_hello,
            **dict.fromkeys((Prepare, Propose, Vote), self.membership.receive_ballot),
            Digest: self.receive_digest,
            Want: self.receive_want,
            SpreadBlocks: self.receive_spread,
            ClientRequest: self.receive_request,
            StreamAck: self.receive_received,
            ListServices: self.receive_list,
            Raise: self.receive_raise,
            PublicationAck: self.upward.receive_published,
        }
        """What takes each type of message."""

    # The view of distributors.

    @property
    def view(self) -> View:
        return self.membership.view

    @property
    def is_ready(self) -> bool:
        """Whether it serves publishers and subscribers: it has once been in a view and caught up with it."""
        return self._is_ready

    def _view_changed(self, view: View) -> None:
        now = self._peers.now()
        if view and self._joined_at is None:
            self._joined_at = now
        self._stability.change_view(view, now)
        self._exchange.change_view(view)
        self._look_whether_ready()
        self._on_view(view)

    def _look_whether_ready(self) -> None:
        if self._is_ready or self._is_leaving or self._joined_at is None:
            return
        caught_up = self._stability.has_heard_all and not self._exchange.is_behind
        self._is_ready = caught_up or self._peers.now() - self._joined_at >= CATCHING_UP

    # Time.

    def tick(self) -> None:
        """Retry, tell, ask, let go of what is not needed."""
        now = self._peers.now()
        self.membership.tick()
        self._stability.expire(now)
        self._exchange.tick()
        self._forget_removed()
        self.upward.tick()
        self._look_whether_ready()
        for service in self.services.values():
            service.fanout.sweep()
            if self._stability.has_heard_all and not self.membership.is_cut_off:
                service.skip_what_is_lost(self._stability, now - CATCHING_UP, now)
            for source in service.trim(self._stability):
                self._exchange.forget((service.name, source))
                self.upward.forget((service.name, source))
            for source in service.publishers:
                self._acknowledge(service, source)
            self._wake_for(service)

    def pump(self, budget: int) -> int:
        """Send subscribers at most `budget` datagrams, services in turn; 0 when there is nothing to send."""
        sent = 0
        while self._busy and sent < budget:
            name = next(iter(self._busy))
            service = self._busy.pop(name)
            sent += service.fanout.pump(budget - sent)
            if service.fanout.has_work:
                self._busy[name] = service
        return sent

    def _wake_for(self, service: Service) -> None:
        if service.fanout.has_work and service.name not in self._busy:
            self._busy[service.name] = service
            self._wake()

    def leave(self) -> None:
        """Say goodbye to the other distributors and to the subscribers, and take no client any more."""
        self._is_leaving = True
        self._is_ready = False
        self.membership.leave()
        for service in self.services.values():
            service.fanout.end_all()

    # Services.

    def create(self, name: str) -> Service | None:
        """Have a service, and publicise it to the other distributors; None when there are too many."""
        service = self.services.get(name)
        if service is None:
            service = self._make(name, self._version_of(name) + 1)
            if service is not None:
                self._exchange.tell()
        return service

    def remove(self, name: str) -> bool:
        """Have a service no more, at any distributor; False if there is none.

        Its messages are let go, and its subscribers are told. A publisher that goes on creates it again."""
        if name not in self.services:
            return False
        self._remove(name, self._version_of(name) + 1)
        self._exchange.tell()
        return True

    def _version_of(self, name: str) -> int:
        service = self.services.get(name)
        return service.version if service is not None else self._removed.get(name, (0, 0.0))[0]

    def _hear_of_service(self, name: str, version: int) -> None:
        """Another distributor has a service, or knows that it is removed."""
        if version <= self._version_of(name) or version >= LATEST_VERSION:
            return
        if name in self.services:
            self._remove(name, version - version % 2)
        if version % 2:
            self._make(name, version)
        else:
            self._note_removed(name, version)

    def _remove(self, name: str, version: int) -> None:
        service = self.services.pop(name)
        del self._by_stream[service.log.stream]
        self._busy.pop(name, None)
        self._note_removed(name, version)
        service.fanout.end_all()
        self._exchange.forget_service(name)
        self.upward.forget_service(name)

    def _note_removed(self, name: str, version: int) -> None:
        removed = (version, self._peers.now())
        remember(self._removed, name, removed, MOST_SERVICES)

    def _forget_removed(self) -> None:
        long_ago = self._peers.now() - REMEMBER_REMOVED
        for name in [name for name, (_, since) in self._removed.items() if since < long_ago]:
            del self._removed[name]

    def _make(self, name: str, version: int = 1) -> Service | None:
        if len(self.services) >= MOST_SERVICES or len(name) > 255:
            self.dropped.add("too_many_services")
            return None
        self._removed.pop(name, None)
        stream = self._peers.random.getrandbits(62) + 1
        log = ServiceLog(name, stream, self._datagram - HEAD_BYTES, self._taken)
        fanout = Fanout(log, self._clients, self.config, self._datagram)
        service = self.services[name] = Service(log, fanout, self.config, version)
        self._by_stream[log.stream] = service
        return service

    def _taken(self, block: ServiceBlock) -> None:
        self.history.record(block)
        self._on_taken(block)

    def publish(self, block: ServiceBlock) -> bool:
        """Take a block from this node itself; False when the buffer is full or the service unknown."""
        service = self.services.get(block.service)
        if service is None or service.is_full:
            self.dropped.add("no_service" if service is None else "buffer_full")
            return False
        if service.take(block, self._peers.now()):
            self._exchange.spread((block,))
            self._wake_for(service)
        return True

    def relay(self, block: ServiceBlock) -> None:
        """Take a block from another group of distributors, of whose services the others here are members
        too: so it is not sent to them, but they may ask for it."""
        service, now = self.services[block.service], self._peers.now()
        # Of a source that is not known, what came before was told as a gap, or need not be told.
        service.log.begin(block.source, block.first - 1, now)
        self.upward.arrived(block.service, block.source, block.last)
        if service.take(block, now):
            self._wake_for(service)

    def relay_begin(self, name: str, source: bytes, after: int) -> None:
        """What was published up to this number came before this distributor took messages of the other
        group."""
        service, now = self.services[name], self._peers.now()
        self.upward.arrived(name, source, after)
        if source in service.log.sources:
            service.skip(source, after, now)
        else:
            service.log.begin(source, after, now)

    def relay_gap(self, name: str, source: bytes, last: int) -> None:
        """The other group will not send a source's messages up to this one."""
        self.upward.arrived(name, source, last)
        self.services[name].skip(source, last, self._peers.now())

    def receive_request(self, sender: Contact, request: ClientRequest) -> None:
        """A publisher or subscriber wants something; it asks again until it is answered."""
        refusal = self._refusal(request)
        if refusal:
            self._answer(sender, ClientAnswer(request.number, refusal, 0, 0, ()))
        elif request.action == ClientAction.SUBSCRIBE:
            self._subscribe(sender, request)
        else:
            service = self.services.get(request.service)
            if request.action == ClientAction.CREATE:
                self._begin_sources(sender, request)
            elif request.action == ClientAction.REMOVE:
                self.remove(request.service)
            elif service is not None:
                moved = request.action == ClientAction.MOVED
                service.fanout.remove(sender.id, request.number, moved)
            self._answer(sender, ClientAnswer(request.number, "", 0, 0, ()))

    def _begin_sources(self, sender: Contact, request: ClientRequest) -> None:
        """A publisher says up to which number all distributors that it knew had its messages."""
        service, now = self.services[request.service], self._peers.now()
        for source, stable in (request.have or {}).items():
            own = is_source(source) and publisher_of(source) == sender.id
            if own and stable and source in service.log.sources:
                service.begins[source] = (stable, now)

    def _refusal(self, request: ClientRequest) -> str:
        if request.action in (ClientAction.UNSUBSCRIBE, ClientAction.MOVED):
            return ""
        if not self._is_ready:
            return "not_ready"
        if request.action == ClientAction.CREATE:
            return "" if self.create(request.service) is not None else "too_many_services"
        if request.action == ClientAction.REMOVE:
            return ""
        if request.action == ClientAction.SUBSCRIBE:
            if request.service in self.services:
                return ""
            return "removed" if request.service in self._removed else "no_service"
        return "unknown_action"

    def _subscribe(self, sender: Contact, request: ClientRequest) -> None:
        service = self.services[request.service]
        log, fanout = service.log, service.fanout
        known = fanout.subscribers.get(sender.id)
        if known is not None and 0 <= known.request - request.number < REQUESTS_OF_A_LIFE:
            place = known.acked + 1  # its request came before, and the answer was lost
        else:
            place = log.last + 1 if request.have is None else log.place_after(request.have)
            is_first = request.no_gap and not fanout.has_no_gap
            fanout.add(sender, request.number, request.no_gap, place - 1)
            if is_first:
                self._exchange.tell()  # so that the others keep what it may still need
        numbers = log.numbers_before(place)
        if request.have is not None:
            # What was silent since before the subscription began was not missed by it.
            since = self._peers.now() - request.since - CATCHING_UP
            numbers = {
                source: number
                for source, number in numbers.items()
                if source in request.have or log.sources[source].active_at >= since
            }
        told = list(numbers.items())
        if len(told) > MOST_ANSWERED:
            told.sort(key=lambda one: log.sources[one[0]].active_at)
            told = told[-MOST_ANSWERED:]
        answer = ClientAnswer(request.number, "", log.stream, place - 1, tuple(told))
        self._answer(sender, answer)
        self._wake_for(service)

    def _answer(self, to: Contact, answer: ClientAnswer) -> None:
        context = self._clients if len(answer.have) <= SMALL_ANSWER else self._peers
        context.send(to, answer)

    # Messages.

    def receive_spread(self, sender: Contact, spread: SpreadBlocks) -> None:
        """Blocks from a publisher, which go on to the other distributors, or from one of those."""
        brought: list[ServiceBlock] = []
        news: dict[tuple[str, bytes], Service] = {}
        from_peer, count = sender.id in self.view, len(self.view.members)
        for block in spread.blocks:
            if not block.is_sound:
                self.dropped.add("malformed")
                continue
            own = publisher_of(block.source) == sender.id
            service = self.services.get(block.service)
            if service is None and from_peer and block.service not in self._removed:
                service = self._make(block.service)
            if service is None and own and not from_peer:
                self.dropped.add("no_service")
                self._clients.send(sender, Alive(0, 0, False, LEAST_PACE))
            elif service is None or not (own or from_peer):
                self.dropped.add("no_service" if service is None else "not_its_source")
            elif own and not from_peer:
                news[service.name, block.source] = service
                if self._take_from_publisher(sender, service, block, spread):
                    brought.append(block)
            elif service.knows_or_takes(block.source, self._peers.now(), distributors=count):
                service.take(block, self._peers.now())
                self._wake_for(service)
        for (_, source), service in news.items():
            self._acknowledge(service, source, again=True)
            self._wake_for(service)
        if brought:
            self._exchange.spread(tuple(brought))
            self.upward.brought(brought)

    def rank(self) -> int:
        """The place of this one in its view; 0 without one."""
        me = self.membership.me.id
        ranks = [rank for rank, one in enumerate(self.view.members) if one.id == me]
        return ranks[0] if ranks else 0

    def receive_raise(self, sender: Contact, raised: Raise) -> None:
        """A block that was published at a group below this one."""
        block = raised.block
        service, now = self.services.get(block.service), self._peers.now()
        if sender.id not in self.below or service is None or not self._is_ready:
            self.dropped.add("not_below" if sender.id not in self.below else "no_service")
            if sender.id not in self.below:
                refusal = PublicationAck(block.service, block.source, -1, 0, NO_GROUP, 0)
                self._peers.send(sender, refusal)
            return
        if not block.is_sound:
            self.dropped.add("malformed")
            return
        if not service.knows_or_takes(block.source, now, block.first - 1) or service.is_full:
            self.dropped.add("buffer_full" if service.is_full else "too_many_sources")
            return
        is_new = service.take(block, now)
        state = service.log.sources[block.source]
        self._peers.send(
            sender, PublicationAck(block.service, block.source, state.high, 0, NO_GROUP, 0)
        )
        self._wake_for(service)
        if is_new:
            self._exchange.spread((block,))
            self.upward.brought([block])

    def _take_from_publisher(
        self,
        sender: Contact,
        service: Service,
        block: ServiceBlock,
        spread: SpreadBlocks,
    ) -> bool:
        """Whether the block, or a part of it, is new and was taken."""
        source, now = block.source, self._peers.now()
        after = spread.after if self.membership.was_in(spread.group, spread.number) else 0
        if not service.knows_or_takes(source, now, after):
            self.dropped.add("too_many_sources")
            return False
        service.publishers[source] = sender
        if spread.after > service.log.sources[source].high:
            service.begins.setdefault(source, (spread.after, now))
        if service.is_full:
            self.dropped.add("buffer_full")
            return False
        return service.take(block, now)

    def _acknowledge(self, service: Service, source: bytes, again: bool = False) -> None:
        """Tell a publisher how far its messages have come, if that is news or `again` is set."""
        state = service.log.sources.get(source)
        if state is None or source not in service.publishers:
            return
        stable = self._stability.stable((service.name, source), state.high)
        if again or service.acknowledged.get(source) != (state.high, stable):
            service.acknowledged[source] = (state.high, stable)
            view = (self.view.group, self.view.number)
            run = self.membership.me.run
            published = PublicationAck(service.name, source, state.high, stable, *view, run)
            self._clients.send(service.publishers[source], published)

    def receive_digest(self, sender: Contact, digest: Digest) -> None:
        if not self.view.has(sender.id, digest.run):
            self.dropped.add("not_in_view")
            return
        for name, version, _ in digest.services:
            self._hear_of_service(name, version)
        self._exchange.receive_digest(sender, digest)
        self._look_whether_ready()

    def receive_want(self, sender: Contact, want: Want) -> None:
        """A distributor misses messages, or a subscriber, or either on a node that has both."""
        service = self.services.get(want.service)
        if service is None or want.first < 1:
            self.dropped.add("no_service" if service is None else "malformed")
            return
        is_peer, is_subscriber = sender.id in self.view, sender.id in service.fanout.subscribers
        if is_peer:
            self._exchange.receive_want(sender, want)
        if is_subscriber:
            self._recall.answer(sender, want, service)
        if not is_peer and not is_subscriber:
            self.dropped.add("not_a_subscriber")

    def receive_received(self, sender: Contact, received: StreamAck) -> None:
        service = self._by_stream.get(received.stream)
        if service is not None:
            service.fanout.receive(sender, received)
            self._wake_for(service)
        elif received.ask:
            knows = received.stream == 0
            self._clients.send(sender, Alive(received.stream, 0, knows, LEAST_PACE))

    def service_of(self, stream: int) -> str | None:
        """The service whose messages go out under this stream."""
        service = self._by_stream.get(stream)
        return None if service is None else service.name

    def receive_list(self, sender: Contact, question: ListServices) -> None:
        """A group below this one wants to know the services."""
        names = sorted(name for name in self.services if name > question.after)
        some = tuple(names[:LISTED_AT_ONCE])
        self._peers.send(sender, ServiceList(some, len(names) > len(some)))
