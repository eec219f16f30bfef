"""Members that name events and do not send them: they are asked after those who have kept their promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from overlay.contact import Contact, PeerId
from overlay.metrics import Metrics
from pubsub.camcast.messages import FetchBlocks
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.repair import BLAME_SECONDS, MOST_ANNOUNCERS, MissingEvents

SOURCE = bytes(28)


def member(number: int) -> Contact:
    return Contact(PeerId(bytes([number]) * 20), "127.0.0.1", number)


LIARS = [member(number) for number in range(1, 1 + MOST_ANNOUNCERS)]
HONEST = member(99)


class World:
    """A community on a clock of its own, in which nothing has come."""

    def __init__(self) -> None:
        self.name = "/t"
        self.context: Any = self
        self.parameters = Parameters()
        self.metrics = Metrics()
        self.asked: list[Contact] = []
        self.lost: list[range] = []
        self.has: set[int] = set()
        self._now = 0.0
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self.missing_events = MissingEvents(self, lambda source: (float("-inf"), 0))  # type: ignore[arg-type]

    def now(self) -> float:
        return self._now

    def call_later(self, delay: float, action: Callable[[], None]) -> Any:
        self._timers.append((self._now + delay, action))
        return self

    def cancel(self) -> None:
        self._timers.pop()

    def send(self, to: Contact, message: FetchBlocks) -> None:
        self.asked.append(to)

    def missing(self, source: bytes, numbers: range) -> Sequence[range]:
        return [range(n, n + 1) for n in numbers if n not in self.has]

    def lose(self, source: bytes, numbers: Sequence[range], reason: str) -> None:
        self.lost += numbers

    def announced(self, number: int, *announcers: Contact) -> None:
        for announcer in announcers:
            self.missing_events.announced(SOURCE, range(number, number + 1), announcer)

    def run(self, seconds: float) -> None:
        end = self._now + seconds
        while self._timers and min(self._timers, key=lambda one: one[0])[0] <= end:
            self._timers.sort(key=lambda one: one[0])
            self._now, action = self._timers.pop(0)
            action()
        self._now = end

    def first_asked(self, number: int, *announcers: Contact) -> Contact:
        before = len(self.asked)
        self.announced(number, *announcers)
        while len(self.asked) == before:
            self.run(self.parameters.fetch_delay)
        self.has.add(number)
        return self.asked[before]


def test_who_broke_a_promise_is_asked_after_others_for_a_while() -> None:
    world = World()
    liar = LIARS[0]
    world.announced(1, liar)
    world.run(5)
    assert set(world.asked) == {liar}
    assert world.metrics.as_dict()["promises_broken"] == len(world.asked)
    assert world.first_asked(2, liar, HONEST) == HONEST
    assert world.first_asked(3, liar) == liar  # for want of others
    world.run(2 * BLAME_SECONDS)
    assert world.first_asked(4, liar, HONEST) == liar


def test_many_who_only_promise_do_not_hide_the_one_that_has_the_event() -> None:
    world = World()
    for liar in LIARS:
        world.announced(1, liar)
    world.run(60)
    world.asked.clear()
    world.announced(2, *LIARS)
    world.run(world.parameters.fetch_delay * 7)  # they are asked, for want of others
    assert world.asked
    world.announced(2, HONEST)
    world.run(world.parameters.fetch_delay * 12)
    assert HONEST in world.asked
