"""Publishers, archives and subscribers on the stage, with virtual disks: anything may crash at any time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact
from overlay.metrics import Metrics
from overlay.virtual.disk import VirtualDisk
from overlay.virtual.stage import Stage, StageConfig, StageContext, numbered_contact
from pubsub.archive.protocol.archived_event import id_of, pack_event
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.delivery import OptimisticSubscriber, OrderedSubscriber
from pubsub.archive.protocol.dissemination import Interest
from pubsub.archive.protocol.finder import Finder, FoundArchive
from pubsub.archive.protocol.managed_topic import RECEIVED, ManagedTopic
from pubsub.archive.protocol.messages import (
    AckResponse,
    EntityUpdates,
    Negotiation,
    Notice,
    Offer,
    ReplicaInfo,
    ReplicaInvoice,
    ReplicaParts,
    ReplicaSummary,
    StoredEvents,
)
from pubsub.archive.protocol.publisher import DurablePublisher
from pubsub.archive.protocol.subscriber import DurableSubscriber, Numbered, Since, Subscribing
from pubsub.archive.protocol.world import ArchiveWorld
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.archive.store.changes import Change
from pubsub.data import pack_data
from pubsub.event import Head, make_block
from pubsub.reliable.runs import RUN_BYTES, Gap
from tests.pubsub.archive.checkers import History

TOPIC = "/soccer"
CONFIG = DurableConfig(window=16, unread=32, batch=8)
"""Small bounds, so that a short run meets all of them."""
BETWEEN_REPLICAS = (
    StoredEvents,
    ReplicaInvoice,
    ReplicaSummary,
    ReplicaParts,
    ReplicaInfo,
    EntityUpdates,
)


def make_event(contact: Contact, run: bytes, number: int, data: Any = None) -> bytes:
    block = make_block(contact.id + run, number, Head(TOPIC), [pack_data(data)])
    return pack_event(block.encoded)


class StageCommit:
    """Group commit without asyncio: one batch is written while the next one gathers."""

    def __init__(self, context: StageContext, store: AppendFileStore, seconds: float) -> None:
        self._context = context
        self._store = store
        self._seconds = seconds
        self._waiting: list[tuple[Sequence[Change], Callable[[], None]]] = []
        self._busy = False

    def __call__(self, changes: Sequence[Change], then: Callable[[], None]) -> None:
        self._waiting.append((changes, then))
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        self._busy = True
        batch, self._waiting = self._waiting, []
        self._store.write([change for changes, _ in batch for change in changes])
        self._context.call_later(self._seconds, lambda: self._end(batch))

    def _end(self, batch: list[tuple[Sequence[Change], Callable[[], None]]]) -> None:
        self._store.sync()
        if self._context._actor.life != self._context._life:
            return  # killed within the sync
        self._busy = False
        for _, then in batch:
            then()
        if self._waiting and not self._busy:
            self._begin()


class StageRead:
    """Reads that take a moment, answered in the order in which they were asked."""

    def __init__(self, context: StageContext, store: AppendFileStore) -> None:
        self._context = context
        self._store = store
        self._chance = random.Random(context.random.random())
        self._last = 0.0

    def __call__(self, query: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        now = self._context.now()
        self._last = max(self._last, now + self._chance.choice((0.0, 0.0005, 0.005)))
        self._context.call_later(self._last - now, lambda: then(query(self._store)))


class ArchiveActor:
    """An archive that can crash, losing what its disk has not synced, and come back."""

    commit_class: type = StageCommit

    def __init__(self, sim: Simulation, number: int) -> None:
        self.sim = sim
        self.contact = numbered_contact(number)
        self.replica = b"replica" + bytes([number])
        self.disk = VirtualDisk(seed=sim.stage.seed * 100 + number)
        self.clock_ahead = sim.skew * random.Random(f"{sim.stage.seed} {number} clock").random()
        self.up = False
        self.start()

    def start(self) -> None:
        stage = self.sim.stage
        stage.restart(self.contact)
        context = stage.context(self.contact)
        self.store = self.open_store()
        self.metrics = Metrics()
        world = ArchiveWorld(
            context,
            TOPIC,
            self.replica,
            self.store,
            self.commit_class(context, self.store, self.sim.sync_seconds),
            StageRead(context, self.store),
            lambda: 1e9 + stage.now + self.clock_ahead,
            self.sim.config,
            self.metrics,
        )
        self.core = ManagedTopic(world)
        stage.attach(self.contact, self._receive)
        self.up = True
        self.core.start(alone=not self.sim.archives)
        self._context = context
        self._meet()

    def open_store(self) -> Any:
        return AppendFileStore(self.disk, "/archive")

    def _meet(self) -> None:
        """What the directory is for: find the others now and then."""
        for other in self.sim.archives:
            self.core.replication.greet(other.contact)
        self._context.call_later(3.0, self._meet)

    def _receive(self, sender: Contact, message: object) -> None:
        is_cut_off = self.sim.apart and type(message) in BETWEEN_REPLICAS
        if type(message) in RECEIVED and not is_cut_off:
            self.core.receive(sender, message)

    def crash(self) -> None:
        self.sim.stage.crash(self.contact)
        self.disk.crash()
        self.up = False


class Searching:
    """Looks for an archive whenever the one in use is silent."""

    def __init__(self, sim: Simulation, contact: Contact, publisher: bytes) -> None:
        self.sim = sim
        self.contact = contact
        self._publisher = publisher
        self.finder: Finder | None = None
        self.failed: Any = None

    def search(self, found: Callable[[FoundArchive], None]) -> None:
        if self.finder is not None:
            self.finder.stop()
        self.finder = Finder(
            self.sim.stage.context(self.contact, "finder"),
            (TOPIC,),
            self._publisher,
            self.sim.lookup,
            self.sim.config,
            found,
            self.failed,
        )
        self.finder.start()


class PublisherActor:
    """Publishes numbers, life after life; what was not acknowledged when it crashes is forgotten."""

    publisher_class: type[DurablePublisher] = DurablePublisher

    def __init__(self, sim: Simulation, number: int, copies: int = 1) -> None:
        self.sim = sim
        self.contact = numbered_contact(number)
        self.copies = copies
        self.lives = 0
        self.count = 0
        self.pending: dict[int, bytes] = {}
        self.start()

    def run_bytes(self, context: StageContext) -> bytes:
        return context.random.randbytes(RUN_BYTES)

    def start(self) -> None:
        stage = self.sim.stage
        stage.restart(self.contact)
        self.lives += 1
        context = stage.context(self.contact)
        self.run = self.run_bytes(context)
        self.search = Searching(self.sim, self.contact, self.contact.id)
        self.pending = {}
        self.backlog = 0
        self.core = self.publisher_class(
            context,
            TOPIC,
            self.sim.config,
            on_progress=self._progress,
            on_silent=self._silent,
        )
        stage.attach(self.contact, self._receive)
        self.search.search(self._found)

    def _found(self, found: FoundArchive) -> None:
        self.core.use(found.archive, found.replica, found.catenation, found.time)
        backlog, self.backlog = self.backlog, 0
        for _ in range(backlog):
            self.publish()

    def _silent(self) -> None:
        self.search.search(self._found)

    def _receive(self, sender: Contact, message: object) -> None:
        if isinstance(message, Offer) and self.search.finder is not None:
            self.search.finder.receive(sender, message)
        elif isinstance(message, Negotiation):
            self.core.receive(sender, message)

    def publish(self) -> None:
        if not self.sim.stage.is_up(self.contact):
            return
        if self.core.archive is None and not self.core.last and not self.pending:
            self.backlog += 1
            return
        self.count += 1
        event = make_event(self.contact, self.run, self.count)
        self.sim.history.published[id_of(event)] = (
            f"{self.contact.id.hex()[:8]}/{self.lives}",
            self.count,
        )
        catenation = self.core.add(event, self.copies)
        self.pending[catenation] = id_of(event)
        self.sim.live(event)

    def _progress(self) -> None:
        for catenation in list(self.pending):
            if self.core.is_safe(catenation, self.copies):
                self.sim.history.acknowledged[self.pending.pop(catenation)] = None

    def crash(self) -> None:
        self.sim.stage.crash(self.contact)


@dataclass
class Kept:
    """What a subscriber's application keeps on its own disk, if it does."""

    position: tuple[tuple[bytes, int], ...] = ()
    effects: list[tuple[bytes, bool]] = field(default_factory=list)


class SubscriberActor:
    """An application that takes its time over each event, and crashes and comes back now and then.

    `remembers`: it keeps the position together with its results; then only those count as delivered."""

    pattern = TOPIC
    subscriber_classes: tuple[type[DurableSubscriber], type[DurableSubscriber]] = (
        OrderedSubscriber,
        OptimisticSubscriber,
    )

    def __init__(
        self,
        sim: Simulation,
        number: int,
        name: str,
        *,
        ordered: bool,
        remembers: bool,
        since: Since = "beginning",
    ) -> None:
        self.sim = sim
        self.contact = numbered_contact(number)
        self.name = name
        self.ordered = ordered
        self.remembers = remembers
        self.since = since
        self.kept = Kept()
        self.deliveries = sim.history.delivered.setdefault(name, [])
        self.gaps: list[Gap] = []
        self.start()

    def start(self) -> None:
        stage = self.sim.stage
        stage.restart(self.contact)
        self.context = stage.context(self.contact)
        self.search = Searching(self.sim, self.contact, b"")
        self.inbox: list[tuple[bytes, bool]] = []
        self.hands: list[Numbered] = []
        self.given: dict[bytes, None] = {}
        self.core = self.subscriber_classes[0 if self.ordered else 1](
            self.context,
            Subscribing(TOPIC, self.name, Interest(self.pattern).packed(), self.since),
            self.sim.config,
            deliver=self._deliver,
            on_gap=self.gaps.append,
            on_silent=lambda: self.search.search(self._found),
            on_registered=self._registered,
            position=self.kept.position if self.remembers else (),
        )
        stage.attach(self.contact, self._receive)
        self.search.search(self._found)

    def _found(self, found: FoundArchive) -> None:
        self.search.failed = found.archive.id
        self.core.use(found.archive)

    def _registered(self, refused: str) -> None:
        """What is published from here on is for it; one that begins at the beginning is owed everything."""
        if not refused and self.since == "now":
            self.sim.history.not_owed.setdefault(self.name, dict(self.sim.history.published))

    def _receive(self, sender: Contact, message: object) -> None:
        if isinstance(message, Offer) and self.search.finder is not None:
            self.search.finder.receive(sender, message)
        elif isinstance(message, AckResponse):
            self.core.receive_response(sender, message)
        elif isinstance(message, Notice):
            self.core.receive_notice(sender, message)

    def heard(self, event: bytes) -> None:
        if isinstance(self.core, OptimisticSubscriber) and self.sim.stage.is_up(self.contact):
            self.core.heard(id_of(event))

    def _deliver(self, numbered: Numbered) -> None:
        id = numbered.id
        excused = numbered.doubtful and not self.remembers and id not in self.given
        self.given[id] = None
        self.inbox.append((id, excused))
        self.hands.append(numbered)
        if not self.remembers:
            self.deliveries.append(self.inbox[-1])
        slow = self.sim.chance.random() < 0.1
        self.context.call_later(self.sim.chance.uniform(0, 4 if slow else 0.02), self._work)

    def _work(self) -> None:
        id = self.inbox.pop(0)
        self.core.done_with(self.hands.pop(0))
        if self.remembers:
            self.deliveries.append(id)
            self.kept.position = self.core.done.marks()

    def crash(self) -> None:
        """Whoever has nothing but a name is owed what came after its registration only where it is known."""
        self.sim.stage.crash(self.contact)
        if not all(one.store.entity(TOPIC, self.name) for one in self.sim.archives):
            self.sim.history.not_owed.pop(self.name, None)


class Simulation:
    """Everything of one run; the seed decides all of it."""

    def __init__(
        self,
        seed: int,
        *,
        archives: int = 1,
        loss: float = 0.0,
        duplicate: float = 0.0,
        latency: tuple[float, float] = (0.001, 0.02),
        sync_seconds: float = 0.004,
        gossip_loss: float = 0.3,
        skew: float = 0.0,
        config: DurableConfig = CONFIG,
    ) -> None:
        self.stage = Stage(seed, StageConfig(latency, loss, duplicate))
        self.chance = random.Random(f"{seed} script")
        self.history = History()
        self.sync_seconds = sync_seconds
        self.gossip_loss = gossip_loss
        self.config = config
        self.deaf = 0.0
        """The share of the directory's questions that are never answered."""
        self.lookups = random.Random(f"{seed} lookups")
        self.apart = False
        """Archives hear everybody but each other."""
        self.skew = skew
        """The most seconds that two archives' clocks differ."""
        self.publishers: list[PublisherActor] = []
        self.subscribers: list[SubscriberActor] = []
        self.archives: list[ArchiveActor] = []
        for number in range(archives):
            self.archives.append(self.make_archive(number))

    make_archive_class = ArchiveActor

    def make_archive(self, number: int) -> ArchiveActor:
        return self.make_archive_class(self, number)

    def lookup(self, topic: str, found: Callable[[tuple[Contact, ...]], None]) -> None:
        if self.deaf and self.lookups.random() < self.deaf:
            return
        found(tuple(archive.contact for archive in self.archives))

    def live(self, event: bytes) -> None:
        """Gossip, which reaches some of those who listen."""
        for subscriber in self.subscribers:
            if self.chance.random() >= self.gossip_loss:
                delay = self.chance.uniform(0.001, 0.03)
                self.stage.call_at(
                    self.stage.now + delay,
                    lambda one=subscriber: one.heard(event),  # type: ignore[misc]
                )
