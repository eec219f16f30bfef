"""Messages that no honest peer sends: none of them raises, and those who are honest are still served."""

from __future__ import annotations

import dataclasses
import random
import typing
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from overlay import wire
from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol import messages, reading
from tests.pubsub.archive.checkers import verdict
from tests.pubsub.archive.harness import (
    TOPIC,
    ArchiveActor,
    PublisherActor,
    Simulation,
    SubscriberActor,
)
from tests.pubsub.archive.sqlite_archive import SqliteArchive

KINDS: list[type] = [
    reading.AskEvents,
    reading.AskStreams,
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
        return chance.choice(
            [
                0,
                1,
                2,
                5,
                -1,
                -(2**63),
                2**40,
                2**53 - 1,
                2**53,
                2**63,
                2**64 - 1,
                chance.randrange(99),
            ]
        )
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
    """A message that could have been decoded: those that say themselves that they are none are not."""
    while True:
        kind = chance.choice(KINDS)
        hints = typing.get_type_hints(kind)
        fields = {f.name: value(chance, hints[f.name]) for f in dataclasses.fields(kind)}
        try:
            made: object = kind(**{**fields, "topic": TOPIC})
            return wire.decode(wire.encode(made))
        except wire.WireError:
            continue


@pytest.mark.parametrize("kind", [ArchiveActor, SqliteArchive])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_a_peer_sends_raises_or_stops_the_others(
    seed: int, kind: type[ArchiveActor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteArchive, "directory", tmp_path, raising=False)
    monkeypatch.setattr(Simulation, "make_archive_class", kind)
    sim = Simulation(seed, archives=2)
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    publisher = PublisherActor(sim, 110)
    sim.subscribers, sim.publishers = [reader], [publisher]
    chance = random.Random(seed)
    stranger = sim.stage.context(numbered_contact(66))
    targets = [reader.contact, publisher.contact, *(one.contact for one in sim.archives)]
    for number in range(1200):
        sim.stage.call_at(
            7 + number * 0.003, lambda: stranger.send(chance.choice(targets), hostile(chance))
        )
    for number in range(40):
        sim.stage.call_at(8 + number * 0.05, publisher.publish)
    sim.stage.run(60)
    assert len(sim.history.acknowledged) == 40
    assert not verdict(sim.history, "exact", ordered=True)


@pytest.mark.parametrize("kind", [ArchiveActor, SqliteArchive])
def test_a_question_for_every_number_there_is_is_answered(
    kind: type[ArchiveActor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteArchive, "directory", tmp_path, raising=False)
    monkeypatch.setattr(Simulation, "make_archive_class", kind)
    sim = Simulation(1)
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run(6)
    answers: list[object] = []
    contact = numbered_contact(66)
    stranger = sim.stage.context(contact)
    sim.stage.attach(contact, lambda sender, message: answers.append(message))
    to = sim.archives[0].contact
    stranger.send(to, messages.ReplicaInfo(TOPIC, b"other", "alive", 0, b"", 0, False, -1, 0, 0))
    sim.stage.run_for(1)
    ids = (b"short", b"", b"i" * 16, *(b"%016d" % number for number in range(2000)))
    stranger.send(to, messages.ReplicaInvoice(TOPIC, b"other", (), False, ids))
    sim.stage.run_for(1)
    publisher.publish()
    sim.stage.run_for(2)
    assert len(sim.history.acknowledged) == 1
    assert any(isinstance(one, messages.StoredEvents) and one.lacking for one in answers)


def test_who_asks_on_and_on_does_not_have_others_wait_behind_it() -> None:
    """The disk is slow: what a peer asks before it has answers is bounded."""
    asked: list[Callable[[], None]] = []
    sent: list[Contact] = []
    world = SimpleNamespace(
        clock=lambda: 9.0,
        replay_refusal=lambda *about: "",
        read=lambda query, then: asked.append(lambda: then([])),
        context=SimpleNamespace(send=lambda to, message: sent.append(to)),
        topic=TOPIC,
        count_drop=Counter().update,
    )
    one = reading.Reading(cast(Any, world), cast(Any, None))
    hostile, honest = numbered_contact(66), numbered_contact(1)
    for nonce in range(10 * reading.MOST_OF_PEER):
        one.receive_last(hostile, reading.AskLast(TOPIC, nonce, "name", TOPIC))
    one.receive_last(honest, reading.AskLast(TOPIC, 1, "name", TOPIC))
    assert len(asked) == reading.MOST_OF_PEER + 1
    for answer in asked:
        answer()
    assert sent[-1] == honest
    one.receive_last(hostile, reading.AskLast(TOPIC, 1, "name", TOPIC))
    assert len(asked) == reading.MOST_OF_PEER + 2
    for number in range(2 * reading.MOST_WAITING // reading.MOST_OF_PEER):
        for nonce in range(reading.MOST_OF_PEER):
            peer = numbered_contact(100 + number)
            one.receive_last(peer, reading.AskLast(TOPIC, nonce, "name", TOPIC))
    assert len(asked) == reading.MOST_OF_PEER + 1 + reading.MOST_WAITING


@pytest.mark.parametrize("number", [-1, 2**53, 2**63, 2**64 - 1])
def test_a_number_that_no_store_could_keep_makes_no_message(number: int) -> None:
    made = messages.ReplicaInvoice(TOPIC, b"other", ((b"stream", 9),))
    object.__setattr__(made, "have", ((b"stream", number),))
    with pytest.raises(wire.WireError):
        wire.decode(wire.encode(made))
