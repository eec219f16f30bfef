"""Members that deliver in total order on a model topic, what they did, and checks of it."""

from __future__ import annotations

import random
from itertools import combinations

from overlay.contact import PeerId
from pubsub.collections.messages import Announcement
from pubsub.collections.total_order import TotalOrder
from tests.pubsub.collections.model_topic import Member, ModelTopic, Source, User

Id = tuple[PeerId, int, int]


class OrderUser(User):
    def __init__(self, member: Member, order: type[TotalOrder], waits_to_settle: bool) -> None:
        self.member = member
        self.history: list[tuple[Id, bytes]] = []
        """What was delivered, and in which stable view."""
        self.received: list[Id] = []
        self.settled_at: float | None = None
        self.view = b""
        self.waits_to_settle = waits_to_settle
        self.unpublished = 0
        self.is_publishing = False
        self.order = order(
            member.id,
            member.send,
            member.context.call_later,
            self._ordered,
            on_settled=self._flush,
            is_done=lambda publisher, life, number: member.has((publisher, life), number),
            is_whole=lambda: member.sees_all,
        )
        self.order.begin_to_order()

    def add(self) -> None:
        self.unpublished += 1
        if self.order.is_settled or not self.waits_to_settle:
            self._flush()

    def _flush(self) -> None:
        if self.settled_at is None:
            self.settled_at = self.member.context.now()
        if self.unpublished and not self.is_publishing:
            self.unpublished -= 1
            self.is_publishing = True
            context = self.member.context
            payload = (self.order.stamp(), context.now())
            context.call_later(context.random.uniform(0, 0.05), lambda: self._publish(payload))

    def _publish(self, payload: tuple[int, float]) -> None:
        self.member.broadcast(payload)
        self.is_publishing = False
        if self.order.is_settled or not self.waits_to_settle:
            self._flush()

    def _ordered(self, item: tuple[Id, float]) -> None:
        self.history.append((item[0], self.view))

    def deliver(self, source: Source, number: int, payload: tuple[int, float]) -> None:
        clock, published = payload
        key = (*source, number)
        self.received.append(key)
        self.published_at[key] = published
        self.order.receive(source, number, clock, (key, published))

    published_at: dict[Id, float]

    def direct(self, sender: PeerId, message: Announcement) -> None:
        self.order.announced(sender, message)

    def undelivered(self, to: PeerId, message: Announcement) -> None:
        self.order.undelivered(to)

    def unstable(self) -> None:
        self.order.unstable()

    def stable(self, view: bytes, members: tuple[PeerId, ...]) -> None:
        self.view = view
        self.order.stable(view, members)

    @property
    def ids(self) -> list[Id]:
        return [key for key, _ in self.history]


def in_both(mine: list[Id], theirs: list[Id]) -> list[Id]:
    both = set(mine) & set(theirs)
    return [key for key in mine if key in both]


class OrderRun:
    """A schedule by seed: publishing all along, with faults in between, and quiet at the end."""

    def __init__(
        self,
        seed: int,
        order: type[TotalOrder] = TotalOrder,
        *,
        partitions: bool = False,
        apart: bool = False,
        size: int = 5,
        waits_to_settle: bool = True,
    ) -> None:
        """`apart`: several come at once, and hear each other before those who are there."""
        self.seed = seed
        self.random = random.Random(f"{seed} schedule")
        self.published_at: dict[Id, float] = {}
        self.healed_at = 0.0

        def make(member: Member) -> OrderUser:
            user = OrderUser(member, order, waits_to_settle)
            user.published_at = self.published_at
            return user

        self.topic = ModelTopic(seed, make, apart=apart)
        for number in range(size):
            self.topic.join(number)
        self._steps(partitions, apart, size)

    def _steps(self, partitions: bool, apart: bool, size: int) -> None:
        topic, chance = self.topic, self.random
        topic.stage.run_for(3)
        for step in range(8):
            for _ in range(12):
                topic.stage.run_for(chance.uniform(0, 0.15))
                chance.choice(list(self.users)).add()
            gone = [number for number in range(size) if number not in topic.members]
            faults = ["crash", "join", "none"] + ["return"] * bool(gone)
            faults += ["split", "heal"] * 2 * partitions + ["two come"] * 2 * apart
            fault = chance.choice(faults)
            if fault == "crash" and len(topic.members) > 2:
                topic.crash(chance.choice(list(topic.members)))
            elif fault == "join":
                topic.join(size + step)
            elif fault == "two come":
                topic.join(size + step)
                topic.join(chance.choice(gone) if gone else size + step + 100)
            elif fault == "return":
                topic.join(chance.choice(gone))
            elif fault == "split":
                side = [n for n in topic.members if chance.random() < 0.5]
                topic.partition(side)
            elif fault == "heal":
                topic.heal()
            topic.stage.run_for(chance.choice([0.05, 1.0, 4.0]))
        topic.heal()
        topic.stage.run_for(60)
        self.healed_at = topic.stage.now
        for user in self.users:
            user.add()
            user.add()
        topic.stage.run_for(30)

    @property
    def users(self) -> list[OrderUser]:
        """Those who are up."""
        return [m.user for m in self.topic.members.values() if isinstance(m.user, OrderUser)]

    @property
    def everybody(self) -> list[OrderUser]:
        return [m.user for m in self.topic.all if isinstance(m.user, OrderUser)]

    # Checks.

    def check_all_delivered(self) -> None:
        """Whoever is up has delivered, once each, whatever reached it, and nothing else."""
        for user in self.users:
            assert sorted(user.ids) == sorted(user.received), self.seed
            assert not user.order.waiting
            assert not user.unpublished
        first = self.topic.all[0].user
        assert isinstance(first, OrderUser)
        assert len(self.users[0].ids) > 20, self.seed

    def check_one_order_in_every_view(self) -> None:
        for one, other in combinations(self.everybody, 2):
            views = dict.fromkeys(view for _, view in one.history)
            for view in views:
                mine = [key for key, seen in one.history if seen == view]
                theirs = [key for key, seen in other.history if seen == view]
                self._check_same(one, other, mine, theirs)

    def check_one_order_for_all(self) -> None:
        """Of all that any two delivered, also what was published before one of them came."""
        for one, other in combinations(self.everybody, 2):
            assert in_both(one.ids, other.ids) == in_both(other.ids, one.ids), self.seed

    def check_one_order_after_the_last_heal(self) -> None:
        for user in self.users:
            last = [key for key in user.ids if self.published_at[key] >= self.healed_at]
            assert len(last) == 2 * len(self.users), self.seed
            assert user.ids[-len(last) :] == last, self.seed
            assert last == [k for k in self.users[0].ids if k in last], self.seed

    def check_publishers_order(self) -> None:
        for user in self.everybody:
            latest: dict[Source, int] = {}
            for publisher, life, number in user.ids:
                assert number > latest.get((publisher, life), 0), self.seed
                latest[publisher, life] = number

    def _check_same(
        self, one: OrderUser, other: OrderUser, mine: list[Id], theirs: list[Id]
    ) -> None:
        """The order of what both delivered, as far as both were settled when it was published."""
        begin = max(
            user.settled_at if user.settled_at is not None else float("inf")
            for user in (one, other)
        )
        common = {key for key in mine if self.published_at[key] > begin} & set(theirs)
        assert [key for key in mine if key in common] == [key for key in theirs if key in common], (
            self.seed
        )
