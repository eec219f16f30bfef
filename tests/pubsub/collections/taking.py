"""Publishers and takers on a model topic, what was taken by whom, and checks of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from overlay.contact import PeerId
from pubsub.collections.messages import ElementId, ElementOffer
from pubsub.collections.one_of_n import OneOfNConfig, Sharing, Taker
from pubsub.data import pack_data
from tests.pubsub.collections.model_topic import Member, ModelTopic, Source, User

TOPIC = "/tasks"


class TakingUser(User):
    """Everybody publishes and takes; work on an element takes a while."""

    def __init__(self, run: TakingRun, member: Member, sharing: type[Sharing]) -> None:
        self.run = run
        self.member = member
        self.sharing = sharing(
            member.id,
            member.life,
            member.send,
            self._work,
            lambda element_id: self._tell_taken(element_id),
            member.context.now,
            member.context.call_later,
            OneOfNConfig(in_hand=3),
        )
        self.sharing.participants_are({member.id: member.life}, [], True)
        self.done: list[ElementId] = []

    def add(self) -> None:
        packed = pack_data(len(self.run.added))
        element_id = (self.member.id, self.member.life, self.member.broadcast(packed))
        self.run.added[element_id] = self
        self.sharing.added(element_id, TOPIC, packed, None)

    def _tell_taken(self, element_id: ElementId) -> None:
        self.member.broadcast(element_id)

    def _work(self, offer: ElementOffer) -> None:
        context = self.member.context
        context.call_later(context.random.uniform(0, 0.6), lambda: self._finish(offer))

    def _finish(self, offer: ElementOffer) -> None:
        if self.member.context.random.random() < 0.1:
            self.sharing.leases.give_back(offer.element_id)
        else:
            self.done.append(offer.element_id)
            self.sharing.leases.done(offer.element_id)

    def deliver(self, source: Source, number: int, payload: Any) -> None:
        if isinstance(payload, bytes):
            element_id = (*source, number)
            self.run.reached.setdefault(element_id, []).append(self)
            self.sharing.received(element_id, TOPIC, payload)
        else:
            self.sharing.taken(payload)

    def direct(self, sender: PeerId, message: Any) -> None:
        self.sharing.direct(sender, message)

    def undelivered(self, to: PeerId, message: Any) -> None:
        self.sharing.undelivered(to, message)

    def unstable(self) -> None:
        self.sharing.unstable()

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        lives = {m.id: m.life for m in self.member.topic.members.values() if m.id in members}
        self.sharing.participants_are(lives, [Taker(peer) for peer in members], True)
        self.sharing.stable(view, lives)


class TakingRun:
    """A schedule by seed: publishing all along, with faults in between, and quiet at the end."""

    def __init__(
        self,
        seed: int,
        sharing: type[Sharing] = Sharing,
        *,
        partitions: bool = False,
        size: int = 5,
    ) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed} schedule")
        self.added: dict[ElementId, TakingUser] = {}
        self.reached: dict[ElementId, list[TakingUser]] = {}
        """To whom each element came as a broadcast."""
        self.topic = ModelTopic(seed, lambda member: TakingUser(self, member, sharing))
        for number in range(size):
            self.topic.join(number)
        self.topic.stage.run_for(3)
        for step in range(8):
            for _ in range(12):
                self.topic.stage.run_for(self.random.uniform(0, 0.15))
                self.random.choice(self.users).add()
            self._fault(partitions, size + step)
            self.topic.stage.run_for(self.random.choice([0.05, 1.0, 4.0]))
        self.topic.heal()
        self.topic.stage.run_for(60)

    def _fault(self, partitions: bool, newcomer: int) -> None:
        topic, chance = self.topic, self.random
        faults = ["crash", "crash", "return", "join"] + ["split", "heal"] * 2 * partitions
        fault = chance.choice(faults)
        if fault in ("crash", "return") and len(topic.members) > 2:
            fallen = chance.choice(list(topic.members))
            topic.crash(fallen)
            if fault == "return":  # before anybody has noticed
                topic.join(fallen)
        elif fault == "join":
            topic.join(newcomer)
        elif fault == "split":
            topic.partition([n for n in topic.members if chance.random() < 0.5])
        elif fault == "heal":
            topic.heal()

    @property
    def users(self) -> list[TakingUser]:
        """Those who are up."""
        return [m.user for m in self.topic.members.values() if isinstance(m.user, TakingUser)]

    @property
    def everybody(self) -> list[TakingUser]:
        return [m.user for m in self.topic.all if isinstance(m.user, TakingUser)]

    # Checks.

    def check_all_taken(self) -> None:
        """What came to anybody who is up was taken; and everybody knows."""
        taken = Counter(element_id for user in self.everybody for element_id in user.done)
        up = self.users
        for element_id in self.added:
            assert taken[element_id] or not any(user in up for user in self.reached[element_id]), (
                self.seed
            )
        for user in up:
            assert not len(user.sharing.assigner), self.seed
            assert not len(user.sharing.leases), self.seed
            assert not len(user.sharing.redelivery), self.seed
        assert len(taken) > 40, self.seed

    def check_taken_once(self) -> None:
        """By one taker that lives at most, and by nobody twice."""
        alive = Counter(element_id for user in self.users for element_id in user.done)
        assert all(times == 1 for times in alive.values()), self.seed
        for user in self.everybody:
            assert all(times == 1 for times in Counter(user.done).values()), self.seed
