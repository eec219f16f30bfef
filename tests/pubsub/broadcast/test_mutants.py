"""For each property, a broadcast that breaks it is caught, and the real one passes the same schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pubsub.broadcast import stacks
from pubsub.broadcast.events import Broadcast, Deliver, Send
from pubsub.broadcast.links import BestEffortSession
from pubsub.broadcast.majority import IndulgentSession
from pubsub.broadcast.order import CausalSession, FifoSession
from pubsub.broadcast.reliable import LazyReliableSession, UniformSession
from pubsub.reliable.numbers import Numbers
from tests.pubsub.broadcast import properties
from tests.pubsub.broadcast.adversary import Schedule, World, run

Mutation = Callable[[pytest.MonkeyPatch], None]


def forgets_the_last_member(patch: pytest.MonkeyPatch) -> None:
    def on_down(self: Any, channel: Any, event: Any) -> None:
        if isinstance(event, Broadcast):
            for rank in range(self.process.size - 1):
                if rank != self.process.rank:
                    channel.down(self, Send(rank, event.message))
            channel.up(self, Deliver(self.process.rank, event.message))

    patch.setattr(BestEffortSession, "on_down", on_down)


def forgets_what_it_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Numbers, "add", lambda self, number: True)


def takes_the_relay_for_the_sender(patch: pytest.MonkeyPatch) -> None:
    def data(self: Any, channel: Any, event: Any, header: Any, inner: Any) -> None:
        real(self, channel, event, (header[0], event.source, header[2]), inner)

    real = LazyReliableSession._data
    patch.setattr(LazyReliableSession, "_data", data)


def does_not_relay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LazyReliableSession, "_relay", lambda self, channel, message: None)


def delivers_at_the_first_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UniformSession, "_can_deliver", lambda self, pending: True)


def delivers_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    def init(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        self.majority = 1

    real = IndulgentSession.__init__
    patch.setattr(IndulgentSession, "__init__", init)


def keeps_no_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndulgentSession, "_nearer_holders", lambda self, origin, copy: self.majority)


def waits_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def on_up(self: Any, channel: Any, event: Any) -> None:
        if isinstance(event, Deliver):
            event = replace(event, message=event.message.pop(1)[1])
        channel.up(self, event)

    patch.setattr(FifoSession, "on_up", on_up)


def heeds_its_sender_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        CausalSession,
        "_is_due",
        lambda self, held: held.past[held.source] == self._delivered[held.source],
    )


CRASH = ((0, 5), (1, 9))
MUTANTS: list[tuple[Mutation, str, str, str, tuple[tuple[int, int], ...]]] = [
    (forgets_the_last_member, "beb", "none", "validity", ()),
    (forgets_what_it_delivered, "rb", "none", "no_duplication", CRASH),
    (takes_the_relay_for_the_sender, "rb", "none", "no_creation", CRASH),
    (does_not_relay, "rb", "none", "agreement", CRASH),
    (delivers_at_the_first_acknowledgement, "urb", "none", "uniform_agreement", CRASH),
    (delivers_without_a_majority, "iurb", "none", "uniform_agreement", CRASH),
    (keeps_no_copy, "iurb", "none", "uniform_agreement", CRASH),
    (waits_for_nothing, "urb", "fifo", "fifo_order", ()),
    (heeds_its_sender_alone, "rb", "causal", "causal_order", ()),
]


def caught(name: str, order: str, violated: str, crashes: tuple[tuple[int, int], ...]) -> int:
    """In how many of a hundred schedules the property is violated."""
    check = getattr(properties, violated)
    qos = stacks.stack(name, order)
    return sum(
        bool(check(run(qos, Schedule(seed, members=5, crashes=crashes)))) for seed in range(100)
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0].__name__)
def test_a_mutant_is_caught(
    mutant: tuple[Mutation, str, str, str, tuple[tuple[int, int], ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate, name, order, violated, crashes = mutant
    assert caught(name, order, violated, crashes) == 0
    mutate(monkeypatch)
    assert caught(name, order, violated, crashes) > 0


def test_a_uniform_broadcast_that_never_repeats_a_payload_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is safe, for nobody delivers what a correct member lacks, but the message waits for ever."""

    def left_waiting() -> int:
        worlds = [World(stacks.stack("urb"), Schedule(seed, crashes=CRASH)) for seed in range(50)]
        for world in worlds:
            world.run()
        sessions = [world.channels[rank].session("urb") for world in worlds for rank in (2, 3)]
        return sum(session.waiting for session in sessions if isinstance(session, UniformSession))

    assert left_waiting() == 0
    monkeypatch.setattr(UniformSession, "_relay", lambda self, channel, data: None)
    assert left_waiting() > 0


def test_a_detector_that_lies_is_caught_by_the_one_that_relies_on_it() -> None:
    """A live member taken for crashed is not waited for, and may miss what others deliver."""

    def broken(lies: int) -> int:
        schedules = [Schedule(seed, members=4, crashes=CRASH, lies=lies) for seed in range(150)]
        histories = [run(stacks.stack("urb"), schedule) for schedule in schedules]
        return sum(bool(properties.uniform_agreement(history)) for history in histories)

    assert broken(lies=0) == 0
    assert broken(lies=6) > 0
