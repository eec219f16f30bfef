"""Messages that no honest peer sends: none of them raises, and those who are honest are still served."""

from __future__ import annotations

import dataclasses
import random
import typing
from typing import Any

import pytest

from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol import messages
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    TOPIC,
    PublisherActor,
    Simulation,
    SubscriberActor,
)

KINDS = [
    messages.Discover,
    messages.Offer,
    messages.Companion,
    messages.Negotiation,
    messages.Register,
    messages.AckResponse,
    messages.Notice,
    messages.Invoice,
    messages.StoredEvents,
    messages.ReplicaInvoice,
    messages.ReplicaInfo,
    messages.EntityUpdates,
]


def value(chance: random.Random, hint: Any) -> Any:
    if hint is bool:
        return chance.random() < 0.5
    if hint is int:
        return chance.choice([0, 1, 2, 5, -1, -(2**40), 2**62, chance.randrange(100)])
    if hint is float:
        return chance.choice([0.0, -1.0, 1e300, chance.random()])
    if hint is str:
        return chance.choice([TOPIC, "", "exact", "alive", "leaving", "sequence", "no topic"])
    if hint is bytes:
        return chance.choice([b"", b"replica\x07", chance.randbytes(28), chance.randbytes(60)])
    arguments = typing.get_args(hint)
    if arguments[-1] is Ellipsis:
        return tuple(value(chance, arguments[0]) for _ in range(chance.randrange(4)))
    return tuple(value(chance, argument) for argument in arguments)


def hostile(chance: random.Random) -> object:
    kind = chance.choice(KINDS)
    hints = typing.get_type_hints(kind)
    fields = {f.name: value(chance, hints[f.name]) for f in dataclasses.fields(kind)}
    return kind(**{**fields, "topic": TOPIC})


@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_a_peer_sends_raises_or_stops_the_others(seed: int) -> None:
    sim = Simulation(seed, archives=2)
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    publisher = PublisherActor(sim, 110)
    sim.subscribers, sim.publishers = [reader], [publisher]
    chance = random.Random(seed)
    stranger = sim.stage.context(numbered_contact(66))
    targets = [reader.contact, publisher.contact, *(one.contact for one in sim.archives)]
    for number in range(400):
        sim.stage.call_at(
            7 + number * 0.01, lambda: stranger.send(chance.choice(targets), hostile(chance))
        )
    for number in range(40):
        sim.stage.call_at(8 + number * 0.05, publisher.publish)
    sim.stage.run(60)
    assert len(sim.history.acknowledged) == 40
    assert not verdict(sim.history, "exact", ordered=True)
