"""Publishers and takers on a model topic, what was taken by whom, and checks of it."""

from __future__ import annotations

import random
from collections import Counter

from overlay.contact import PeerId
from pubsub.collections.messages import Answer, Offer
from pubsub.collections.one_of_n import Giver, Hands, Held, OneOfNConfig, Taker
from tests.pubsub.collections.model_topic import Member, ModelTopic, User


class TakingUser(User):
    """Everybody publishes and takes; work on an element takes a while."""

    def __init__(self, run: TakingRun, member: Member, giver: type[Giver]) -> None:
        self.run = run
        self.member = member
        self.giver = giver(member.life, member.send, OneOfNConfig(in_hand=3), lambda reason: None)
        self.giver.takers_are([], True)
        self.hands = Hands(member.send, self._work)
        self.done: list[bytes] = []

    def add(self) -> None:
        element = self.run.new_element(self)
        self.giver.add("/tasks", element, None)

    def _work(self, held: Held, offer: Offer) -> None:
        context = self.member.context
        context.call_later(context.random.uniform(0, 0.6), lambda: self._finish(held, offer))

    def _finish(self, held: Held, offer: Offer) -> None:
        if self.member.context.random.random() < 0.1:
            self.hands.give_back(held)
        else:
            self.done.append(offer.data)
            self.hands.done(held)

    def direct(self, sender: PeerId, message: Offer | Answer) -> None:
        if isinstance(message, Offer):
            self.hands.offered(sender, message)
        else:
            self.giver.answered(sender, message)

    def undelivered(self, to: PeerId, message: Offer | Answer) -> None:
        if isinstance(message, Offer):
            self.giver.undelivered(to, message)
        else:
            self.hands.undelivered(to, message)

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        self.giver.takers_are([Taker(peer) for peer in members if peer in self.run.askers()], True)
        self.hands.present_are(members)


class TakingRun:
    def __init__(
        self, seed: int, giver: type[Giver] = Giver, *, partitions: bool = False, size: int = 5
    ) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed} schedule")
        self.added: dict[bytes, TakingUser] = {}
        self.topic = ModelTopic(seed, lambda member: TakingUser(self, member, giver))
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
        fault = chance.choice(["crash", "crash", "join"] + ["split", "heal"] * 2 * partitions)
        if fault == "crash" and len(topic.members) > 2:
            topic.crash(chance.choice(list(topic.members)))
        elif fault == "join":
            topic.join(newcomer)
        elif fault == "split":
            topic.partition([n for n in topic.members if chance.random() < 0.5])
        elif fault == "heal":
            topic.heal()

    def new_element(self, publisher: TakingUser) -> bytes:
        element = len(self.added).to_bytes(4, "big")
        self.added[element] = publisher
        return element

    def askers(self) -> list[PeerId]:
        return [user.member.id for user in self.users]

    @property
    def users(self) -> list[TakingUser]:
        return [m.user for m in self.topic.members.values() if isinstance(m.user, TakingUser)]

    @property
    def everybody(self) -> list[TakingUser]:
        return [m.user for m in self.topic.all if isinstance(m.user, TakingUser)]

    # Checks.

    def check_all_taken(self) -> None:
        """Whatever a publisher that is up has added was taken, and it knows."""
        taken = Counter(element for user in self.everybody for element in user.done)
        for element, publisher in self.added.items():
            assert publisher not in self.users or taken[element], self.seed
        assert not any(user.giver.untaken for user in self.users), self.seed
        assert len(taken) > 40, self.seed

    def check_taken_once(self) -> None:
        """By one taker that lives, or by none but one that crashed afterwards."""
        alive = Counter(element for user in self.users for element in user.done)
        assert all(times == 1 for times in alive.values()), self.seed
        for user in self.everybody:
            assert all(times == 1 for times in Counter(user.done).values()), self.seed
