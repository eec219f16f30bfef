"""Runs made from a seed: participants join, leave, crash and come back, channels break and heal, and all
publish.

Participant 0 never crashes or leaves, so that the topic never dies; of the others, some have logs.
"""

from __future__ import annotations

import random

from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.delivering import Order
from tests.pubsub.topics.troupe import Troupe, TroupeConfig

CALM = 30.0
"""Seconds without faults in which everything must come to rest."""


class Play:
    """One run: `faults` steps under faults, then calm."""

    def __init__(
        self,
        seed: int,
        *,
        steps: int = 40,
        order: Order = "none",
        core: type[TopicBroadcast] = TopicBroadcast,
        check_wire: bool = False,
        tangled: bool = False,
        absent: bool = False,
        absent_answer: bool = True,
    ) -> None:
        """`tangled`: some pairs cannot talk to each other for long, and participants leave while
        partitioned. `absent`: nodes come back without the topic, and may open it later; `absent_answer`:
        whether they say so."""
        self.chance = random.Random(f"schedule {seed}")
        self.size = self.chance.randint(3, 7)
        config = TroupeConfig(order=order, check_wire=check_wire, absent_answer=absent_answer)
        self.troupe = Troupe(seed, self.size, config)
        self.troupe.core_class = core
        self.logged = [self.chance.random() < 0.5 for _ in range(self.size)]
        self.steps = steps
        self.tangled = tangled
        self.absent = absent
        self.gone: dict[int, None] = {}
        """Those who left for good."""

    def run(self, *, heal: bool = True) -> Troupe:
        troupe, chance = self.troupe, self.chance
        for number in range(chance.randint(2, self.size)):
            troupe.start(number, logged=self.logged[number])
            troupe.run(chance.uniform(0.0, 0.5))
        troupe.run(3.0)
        for _ in range(self.steps):
            if self.absent and chance.random() < 0.2:
                self._come_back_without_topic()
            if not self.tangled or chance.random() < 0.8:
                self._step()
            else:
                self._tangle()
            troupe.run(chance.choice((0.0, 0.05, 0.5, 2.0)))
        if heal:
            troupe.heal()
            for number in range(self.size):
                if self._is_down(number) and number in troupe.actors:
                    troupe.start(number, logged=self.logged[number])
            troupe.run(8.0)
            for number in range(self.size):
                troupe.broadcast(number, b"after the last heal")
        troupe.run(CALM)
        return troupe

    def _is_down(self, number: int) -> bool:
        actor = self.troupe.actors.get(number)
        is_there = actor is not None and actor.alive and actor.in_topic
        return number not in self.gone and not is_there

    def _step(self) -> None:
        troupe, chance = self.troupe, self.chance
        number = chance.randrange(self.size)
        what = chance.random()
        if what < 0.55:
            for _ in range(chance.randint(1, 4)):
                troupe.broadcast(chance.randrange(self.size))
        elif what < 0.67:
            side = chance.sample(range(self.size), chance.randint(1, self.size - 1))
            troupe.partition(side)
        elif what < 0.77:
            troupe.heal()
        elif what < 0.82:
            troupe.suspect_wrongly(number, chance.randrange(self.size))
        elif what < 0.92 and self._is_down(number):
            troupe.start(number, logged=self.logged[number])
        elif number and number in troupe.actors:
            if what < 0.98:
                troupe.crash(number)
            elif not self._is_down(number) and troupe.leave(number):
                self.gone[number] = None

    def _come_back_without_topic(self) -> None:
        troupe, number = self.troupe, self.chance.randrange(1, self.size)
        if number in troupe.actors and number not in self.gone:
            troupe.crash(number)
            troupe.run(self.chance.choice((0.05, 0.5, 5.0)))
            troupe.start_without_topic(number)

    def _tangle(self) -> None:
        troupe, chance = self.troupe, self.chance
        one, other = chance.sample(range(self.size), 2)
        if chance.random() < 0.8:
            troupe.cut(one, other)
        elif (
            one
            and one in troupe.actors
            and not self._is_down(one)
            and troupe.leave(one, partitioned=True)
        ):
            self.gone[one] = None
