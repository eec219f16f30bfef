"""Distributors, publishers and subscribers on the stage, with a history of all that the properties speak of.

The well-known place is a list of all distributors that ever were, the dead included. The failure detector
suspects a member of the view that is down or on the other side of a partition for a while, until that is
over (see `watching`); a script may add false suspicions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from overlay.contact import Contact
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.distributors.config import ClientConfig, DistributorConfig
from pubsub.distributors.messages import ServiceBlock
from pubsub.distributors.protocol.distributor import DistributorCore
from pubsub.distributors.protocol.exchange import History
from pubsub.distributors.protocol.publishing import PublishingCore
from pubsub.distributors.protocol.subscription import SourceMessage, SubscriptionCore
from pubsub.distributors.protocol.view import View
from pubsub.reliable.runs import Gap, source_of
from tests.pubsub.distributors.watching import Watching

DATAGRAM = 1200

MessageId = tuple[bytes, int]


@dataclass
class DistributorActor:
    contact: Contact
    core: DistributorCore
    watching: Watching
    views: list[tuple[float, View]] = field(default_factory=list)
    taken: dict[MessageId, float] = field(default_factory=dict)
    """When each message entered the log."""
    taken_in: dict[MessageId, View] = field(default_factory=dict)
    """The view in which that was."""
    taken_for: dict[MessageId, tuple[bytes, ...]] = field(default_factory=dict)
    """The local subscribers at that time."""


@dataclass
class SubscriberActor:
    contact: Contact
    core: SubscriptionCore
    log: list[SourceMessage | Gap] = field(default_factory=list)
    begins: dict[bytes, int] = field(default_factory=dict)
    """By source, the last number that was before the subscription."""
    unsubscribed: bool | None = None
    """Whether that was acknowledged, once it is over."""

    @property
    def delivered(self) -> list[MessageId]:
        return [(one.source, one.sequence) for one in self.log if isinstance(one, SourceMessage)]

    @property
    def gaps(self) -> list[Gap]:
        return [one for one in self.log if isinstance(one, Gap)]


@dataclass
class PublisherActor:
    contact: Contact
    core: PublishingCore


class Theatre:
    """One run; cores may be replaced by mutants."""

    distributor_core: type[DistributorCore] = DistributorCore
    subscription_core: type[SubscriptionCore] = SubscriptionCore
    publishing_core: type[PublishingCore] = PublishingCore

    def __init__(
        self,
        seed: int,
        network: StageConfig | None = None,
        config: DistributorConfig | None = None,
        client: ClientConfig | None = None,
        history: History | None = None,
    ) -> None:
        self.stage = Stage(seed, network)
        self.random = random.Random(f"{seed} script")
        self.config = config or DistributorConfig()
        self.client = client or ClientConfig()
        self.history = history
        self.distributors: list[DistributorActor] = []
        self.former: list[DistributorActor] = []
        """The lives of distributors that have come back since."""
        self.subscribers: list[SubscriberActor] = []
        self.publishers: list[PublisherActor] = []
        self._numbers = iter(range(1, 10_000))
        self._sides: dict[bytes, int] = {}
        self._falsely: dict[tuple[bytes, bytes], float] = {}
        self._script(0.25, self._detect)

    # The cast.

    def restart(
        self,
        actor: DistributorActor,
        services: tuple[str, ...] = ("news",),
        may_found: bool = True,
    ) -> None:
        """Crash a distributor; it comes back at once, under its identity and with nothing."""
        self.stage.crash(actor.contact)
        self.stage.restart(actor.contact)
        self.distributors.remove(actor)
        self.former.append(actor)
        self.distributor(services, may_found, contact=actor.contact)

    def distributor(
        self,
        services: tuple[str, ...] = ("news",),
        may_found: bool = True,
        contact: Contact | None = None,
    ) -> DistributorActor:
        """One more; unless it may found a group, it waits for the others to take it in."""
        contact = contact or numbered_contact(next(self._numbers))
        stage = self.stage

        def pump() -> None:
            if core.pump(10_000):
                wake()

        def wake() -> None:
            context.call_later(0.001, pump)

        def on_view(view: View) -> None:
            actor.views.append((stage.now, view))
            actor.watching.change_view(view)

        def on_taken(block: ServiceBlock) -> None:
            fanout = core.services[block.service].fanout
            for number in block.numbers:
                message = (block.source, number)
                actor.taken[message] = stage.now
                actor.taken_in[message] = core.view
                actor.taken_for[message] = tuple(fanout.subscribers)

        context = stage.context(contact, "peers")
        core = self.distributor_core(
            context,
            stage.context(contact, "clients"),
            self.config if may_found else replace(self.config, found_after=None),
            DATAGRAM,
            history=self.history,
            wake=wake,
            on_view=on_view,
            on_taken=on_taken,
        )
        actor = DistributorActor(contact, core, Watching(core))
        self.distributors.append(actor)
        for name in services:
            core.create(name)

        def receive(sender: Contact, message: object) -> None:
            handler = core.handlers.get(type(message))
            if handler is not None:
                handler(sender, message)

        stage.attach(contact, receive)

        def tick() -> None:
            core.membership.know([one.contact for one in self.distributors])
            core.tick()
            context.call_later(self.config.tick * context.random.uniform(0.9, 1.1), tick)

        tick()
        return actor

    def subscriber(self, service: str = "news", no_gap: bool = False) -> SubscriberActor:
        contact = numbered_contact(next(self._numbers))
        context = self.stage.context(contact, "subscriber")
        core = self.subscription_core(
            context,
            context,
            self.client,
            service,
            no_gap=no_gap,
            deliver=lambda delivery: actor.log.append(delivery),
            report=lambda gap: actor.log.append(gap),
            want_distributors=lambda: self._look_up(context, core.keeper.know),
            begun=lambda numbers: actor.begins.update(numbers),
        )
        actor = SubscriberActor(contact, core)
        self.subscribers.append(actor)
        self.stage.attach(contact, core.receive)
        core.start()
        return actor

    def publisher(self, service: str = "news") -> PublisherActor:
        contact = numbered_contact(next(self._numbers))
        context = self.stage.context(contact, "publisher")
        core = self.publishing_core(
            context,
            context,
            self.client,
            service,
            source_of(contact.id, b"the run1"),
            progress=lambda: None,
            want_distributors=lambda: self._look_up(context, core.keeper.know),
        )
        actor = PublisherActor(contact, core)
        self.publishers.append(actor)
        self.stage.attach(contact, core.receive)
        core.start()
        return actor

    def _look_up(self, context: object, know: Callable[[list[Contact]], None]) -> None:
        """The directory answers after a while, with the dead among the living."""
        context.call_later(0.1, lambda: know([one.contact for one in self.distributors]))  # type: ignore[attr-defined]

    # The script.

    def run(self, seconds: float) -> None:
        self.stage.run_for(seconds)

    def unsubscribe(self, subscriber: SubscriberActor) -> None:
        def done(acknowledged: bool) -> None:
            subscriber.unsubscribed = acknowledged

        subscriber.core.unsubscribe(done)

    def crash(self, contact: Contact) -> None:
        self.stage.crash(contact)

    def is_up(self, contact: Contact) -> bool:
        return self.stage.is_up(contact)

    def partition(self, *sides: list[Contact]) -> None:
        self._sides = {one.id: number for number, side in enumerate(sides, 1) for one in side}
        self.stage.partition(*sides)

    def heal(self) -> None:
        self._sides = {}
        self.stage.heal()

    def suspect_falsely(self, who: Contact, whom: Contact, seconds: float) -> None:
        self._falsely[who.id, whom.id] = self.stage.now + seconds

    def up(self, actors: list[DistributorActor]) -> list[DistributorActor]:
        return [one for one in actors if self.is_up(one.contact)]

    def settled(self, within: float = 30.0) -> bool:
        """Run until all distributors that are up are in one view of exactly them."""
        end = self.stage.now + within
        while self.stage.now < end:
            self.run(0.5)
            if self._is_settled():
                return True
        return False

    def _is_settled(self) -> bool:
        up = self.up(self.distributors)
        members = {one.contact.id for one in up}
        views = [one.core.view for one in up]
        first = views[0]
        return all(view and view == first for view in views) and (
            first is not None and {member.id for member in first.members} == members
        )

    def _script(self, every: float, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.stage.call_at(self.stage.now + every, again)

        self.stage.call_at(self.stage.now + every, again)

    def _detect(self) -> None:
        """The failure detector of every distributor."""
        for one in self.up(self.distributors):
            self._look(one.contact, one.watching)

    def _look(self, who: Contact, watching: Watching) -> None:
        def reaches(whom: Contact) -> bool:
            return self.is_up(whom) and self._sides.get(who.id, 0) == self._sides.get(whom.id, 0)

        def is_wrong(whom: Contact) -> bool:
            return self._falsely.get((who.id, whom.id), 0.0) > self.stage.now

        watching.look(self.stage.now, reaches, is_wrong)
