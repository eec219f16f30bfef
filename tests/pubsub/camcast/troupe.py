"""CAMCAST processes on a stage, with an all-knowing directory, and a watch for parasite events.

The membership service here is the simplest that can work: it draws its table from the directory at random,
again and again. The real ones are tested where they are made; here the protocol above them is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.membership.interface import Found, Membership, MembershipListener
from overlay.membership.modes import ModeName, make_membership
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, StageContext, numbered_contact
from overlay.wire import decode
from pubsub.camcast.community import Community, Services
from pubsub.camcast.gossip import DisseminationFactory, EagerGossip
from pubsub.camcast.leases import Until
from pubsub.camcast.messages import AnnounceBlocks
from pubsub.camcast.parameters import Parameters, membership_config
from pubsub.camcast.process import Process
from pubsub.data import pack_data
from pubsub.event import (
    RUN_BYTES,
    Block,
    Copy,
    Gossip,
    Head,
    encode_copy,
    event_ids,
    make_block,
    read_block,
)
from pubsub.topic import Topic

REDRAW = 4.0


class StageCarrier:
    """Takes events over the stage, on which a part of them is lost."""

    def __init__(self, context: StageContext, loss: float) -> None:
        self._context = context
        self._loss = loss
        self.is_sure = not loss

    def accepted(self, gossip: Gossip, copies: int) -> None: ...

    def refused(self, gossip: Gossip) -> None: ...

    def suspect(self, peer: PeerId) -> None: ...

    def withdraw(self, to: Contact, community: str, source: bytes) -> list[range]:
        return []

    def tell(self, to: Contact, message: object, until: Until) -> None:
        self._context.send(to, message)

    def send(self, to: Sequence[Contact], gossip: Gossip, untils: Mapping[PeerId, Until]) -> int:
        for contact in to:
            assert untils[contact.id].at > self._context.now()
            if self._context.random.random() >= self._loss:
                self._context.send(contact, decode(encode_copy(gossip)))
        return len(to)


class OracleDirectory:
    """Knows at once who is in a topic; shared by all, asked through one `ask` per process."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.members: dict[str, dict[PeerId, Contact]] = {}
        self.blind: dict[str, None] = {}
        """Topics of which it names nobody, as if no contact were known."""
        self.gateways = 0
        """When more than 0: it names the first so many members of each topic and nobody else."""

    def of(self, context: StageContext) -> DirectoryOfActor:
        return DirectoryOfActor(self, context)

    def live(self, topic: str, other_than: Contact) -> list[Contact]:
        members = self.members.get(topic, {}).values()
        return [m for m in members if m.id != other_than.id and self.stage.is_up(m)]

    def ask(self, context: StageContext, topic: str, count: int, found: Found) -> None:
        def answer() -> None:
            live = [] if topic in self.blind else self.live(topic, context.contact)
            if self.gateways:
                first = list(self.members.get(topic, ()))[: self.gateways]
                live = [member for member in live if member.id in first]
            found(tuple(context.random.sample(live, min(count, len(live)))))

        context.call_later(0.02, answer)


class DirectoryOfActor:
    """The directory as a `TopicDirectory` of one process."""

    def __init__(self, oracle: OracleDirectory, context: StageContext) -> None:
        self._oracle = oracle
        self._context = context

    def announce(self, topic: str, done: Callable[[], None] = lambda: None) -> None:
        contact = self._context.contact
        self._oracle.members.setdefault(topic, {})[contact.id] = contact
        done()

    def withdraw(self, topic: str) -> None:
        self._oracle.members[topic].pop(self._context.contact.id, None)

    def contacts(self, topic: str, count: int, found: Found) -> None:
        self._oracle.ask(self._context, topic, count, found)

    sample = contacts

    def report(self, topic: str, member: Contact) -> None:
        """Nothing to do: it names those who are up, and nobody else."""

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        size = 1.0 + len(self._oracle.live(topic, self._context.contact))
        self._context.call_later(0.02, lambda: found(size))


class OracleMembership:
    """A topic table drawn from the directory."""

    def __init__(
        self,
        context: StageContext,
        directory: OracleDirectory,
        topic: str,
        parameters: Parameters,
        listener: MembershipListener,
    ) -> None:
        self.topic = topic
        self._context = context
        self._directory = directory
        self._parameters = parameters
        self._listener = listener
        self._table: dict[PeerId, Contact] = {}
        self.size = 1.0

    @property
    def table(self) -> tuple[Contact, ...]:
        return tuple(self._table.values())

    def start(self) -> None:
        contact = self._context.contact
        self._directory.members.setdefault(self.topic, {})[contact.id] = contact
        self._timer = self._context.call_later(0.02, self._draw)

    def stop(self) -> None:
        self._directory.members[self.topic].pop(self._context.contact.id, None)
        self._timer.cancel()
        self._table.clear()

    def receive(self, sender: Contact, message: object) -> None:
        raise AssertionError("this membership service has no messages")

    def reconfigure(self, c: float) -> None:
        self._parameters = replace(self._parameters, c=c)

    def suspect(self, peer: PeerId) -> None:
        gone = self._table.pop(peer, None)
        if gone is not None:
            self._listener.member_removed(gone)

    def _draw(self) -> None:
        live = self._directory.live(self.topic, self._context.contact)
        self.size = 1.0 + len(live)
        count = math.floor(math.log(self.size) + self._parameters.c)
        drawn = self._context.random.sample(live, min(count, len(live)))
        before, self._table = self._table, {member.id: member for member in drawn}
        for member in drawn:
            if member.id not in before:
                self._listener.member_added(member)
        self._listener.joined()
        self._timer = self._context.call_later(REDRAW, self._draw)


class Actor:
    """One process on the stage, and what was delivered to it: event ids by community."""

    def __init__(self, troupe: Troupe, contact: Contact, parameters: Parameters) -> None:
        self.troupe = troupe
        self.contact = contact
        self.context = troupe.stage.context(contact)
        self.metrics = Metrics()
        self.delivered: dict[str, list[bytes]] = {}
        self.hops: dict[bytes, int] = {}
        directory = troupe.directory.of(self.context)
        services = Services(
            self.context,
            self.context,
            StageCarrier(self.context, troupe.event_loss),
            self._membership,
            directory.contacts,
            False,
            self.metrics,
            dissemination=troupe.dissemination,
        )
        self._directory = directory
        self.process = Process(services, parameters)
        troupe.stage.attach(contact, self.process.receive)
        self._next: dict[str, int] = {}

    def _membership(
        self, topic: str, parameters: Parameters, listener: MembershipListener
    ) -> Membership:
        if self.troupe.mode is None:
            return OracleMembership(
                self.context, self.troupe.directory, topic, parameters, listener
            )
        return make_membership(
            self.troupe.mode,
            topic,
            self.context,
            self._directory,
            listener,
            membership_config(parameters),
            self.metrics,
        )

    def join(self, topic: str | type | Topic, parameters: Parameters | None = None) -> Community:
        topic = Topic.of(topic)
        received = self.delivered.setdefault(topic.name, [])

        def deliver(block: Block, hops: int, new: Sequence[range]) -> None:
            for event_id in event_ids(block.source, new):
                received.append(event_id)
                self.hops[event_id] = hops

        return self.process.join(topic, deliver, parameters)

    def publish(self, topic: str | type | Topic, data: object = None, **fields: float) -> bytes:
        (event,) = self.publish_block(topic, [data], **fields)
        return event

    def publish_block(
        self, topic: str | type | Topic, data: Sequence[object], **fields: float
    ) -> list[bytes]:
        """Publish events that travel together; their ids."""
        topic = Topic.of(topic)
        first = self._next.get(topic.name, 1)
        self._next[topic.name] = first + len(data)
        run = self.troupe.run_of(topic.name, self.contact)
        head = Head(topic.name, topic.lineage, fields.get("upward"), not self.troupe.lazily)
        block = make_block(self.contact.id + run, first, head, [pack_data(one) for one in data])
        self.process.communities[topic.name].publish(block)
        return [*event_ids(block.source, (block.numbers,))]

    def drops(self, reason: str) -> int:
        return self.metrics.family("events_dropped", "reason", "")[reason]


class Troupe:
    """The processes of a test, on one stage, none of which may ever be sent a parasite event."""

    def __init__(
        self,
        seed: int,
        config: StageConfig | None = None,
        parameters: Parameters | None = None,
        mode: ModeName | None = None,
        event_loss: float = 0.0,
        dissemination: DisseminationFactory = EagerGossip,
    ) -> None:
        """`mode`: a real membership service in place of the simplest one; `event_loss`: of events only."""
        self.mode = mode
        self.dissemination = dissemination
        self.lazily = dissemination is not EagerGossip
        self.event_loss = event_loss
        self.stage = Stage(seed, config)
        self.directory = OracleDirectory(self.stage)
        self.directory.gateways = 3 if mode == "unstructured" else 0
        self.parameters = parameters or Parameters()
        self.actors: dict[PeerId, Actor] = {}
        self.copies: dict[tuple[bytes, str], int] = {}
        """Copies of each event sent, by event and community."""
        self.announcements = 0
        """Messages that announce events."""
        self.upward: dict[tuple[PeerId, str], int] = {}
        """Upward messages, by receiver and community."""
        self.stage.observe(self._watch)

    def run_of(self, topic: str, publisher: Contact) -> bytes:
        """The name of the publisher's run in the topic."""
        return hashlib.sha256(topic.encode() + publisher.id).digest()[:RUN_BYTES]

    def add(self, *topics: str | type | Topic) -> Actor:
        actor = Actor(self, numbered_contact(len(self.actors)), self.parameters)
        self.actors[actor.contact.id] = actor
        for topic in topics:
            actor.join(topic)
        return actor

    def add_many(self, count: int, topic: str | type | Topic) -> list[Actor]:
        return [self.add(topic) for _ in range(count)]

    def crash(self, *actors: Actor) -> None:
        for actor in actors:
            self.stage.crash(actor.contact)

    def receivers(self, event_id: bytes, topic: str | type | Topic) -> list[Actor]:
        name = Topic.of(topic).name
        return [a for a in self.actors.values() if event_id in a.delivered.get(name, ())]

    def members(self, topic: str) -> list[Actor]:
        """The live members of a community."""
        return [
            actor
            for actor in self.actors.values()
            if topic in actor.process.communities and self.stage.is_up(actor.contact)
        ]

    def wait(self, ready: Callable[[], bool], at_most: float = 60.0) -> None:
        """Run until `ready()`; fails after so many virtual seconds."""
        deadline = self.stage.now + at_most
        while not ready():
            assert self.stage.now < deadline, f"not within {at_most} s (seed {self.stage.seed})"
            self.stage.run_for(0.1)

    def _watch(self, time: float, sender: Contact, to: Contact, message: object) -> None:
        if type(message) is AnnounceBlocks:
            self.announcements += 1
            if self.stage.is_up(to):
                assert self.actors[to.id].process.is_in(message.topic), (
                    f"events of {message.topic} announced outside it at {time:.3f} s"
                )
        if type(message) is not Copy:
            return
        block = read_block(message.block, message.community)
        receiver = self.actors[to.id]
        if self.stage.is_up(to):
            assert receiver.process.is_in(message.community), (
                f"parasite of {block.topic} in {message.community} at {time:.3f} s"
            )
        for event_id in event_ids(block.source, (block.numbers,)):
            key = (event_id, message.community)
            self.copies[key] = self.copies.get(key, 0) + 1
        if message.upward:
            place = (to.id, message.community)
            self.upward[place] = self.upward.get(place, 0) + 1
