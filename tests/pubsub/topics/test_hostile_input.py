"""What peers send never raises: it is dropped, or changes nothing that matters."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode
from pubsub.reliable.runs import source_of
from pubsub.topics.aside import AsideMessages
from pubsub.topics.config import BroadcastConfig
from pubsub.topics.messages import (
    LARGEST,
    Absent,
    Aside,
    Cast,
    Item,
    JoinTopic,
    Knowledge,
    Received,
    Row,
    Sight,
)
from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.troupe import Troupe

STRANGER = numbered_contact(99)
SOURCE = source_of(STRANGER.id, bytes(8))

MESSAGES: list[type] = [JoinTopic, Knowledge, Absent, Cast, Received, Aside]
ENDS = [LARGEST, LARGEST - 1, LARGEST + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
"""Numbers on both sides of every limit."""


def test_messages_that_contradict_themselves_do_not_exist() -> None:
    for make in (
        lambda: Item(STRANGER.id, bytes(8), 0, False, (), b""),
        lambda: Item(STRANGER.id, b"short", 1, False, (), b""),
        lambda: Cast("/t", (), ((SOURCE, 3, ((4, 4),)),), bytes(8)),
        lambda: Cast("/t", (), ((b"short", 3, ()),), bytes(8)),
        lambda: Received(
            "/t",
            ((STRANGER.id, 1, 1, b"", ((SOURCE, 5, ((7, 9), (9, 9))),)),),
            (),
            b"",
            False,
            False,
        ),
        lambda: Aside("/t", "loud", bytes(8), 1, b""),
        lambda: Sight(b"short", b""),
        lambda: Sight(bytes(8), bytes(8193)),
    ):
        with pytest.raises(UsageError):
            make()


def test_nonsense_of_a_stranger_changes_nothing() -> None:
    troupe = joined(1, 3)
    core = troupe.actors[0].core
    own = source_of(core.membership.me, core.membership.run)
    digest = core.membership.digest
    core.receive_cast(
        STRANGER,
        Cast(
            "/t",
            (Item(core.membership.me, core.membership.run, 7, False, (), b"me?"),),
            (),
            digest,
        ),
    )
    core.receive_cast(
        STRANGER, Cast("/t", (Item(STRANGER.id, bytes(8), 1, False, (), None),), (), digest)
    )
    core.receive_received(
        STRANGER,
        Received(
            "/t", ((core.membership.me, 1, 99, digest, ((own, 9, ()),)),), (), digest, True, True
        ),
    )
    assert core.counts["wrong"] == 2
    troupe.broadcast(0, b"still alive")
    troupe.run(5.0)
    assert [payloads_at(troupe, number) for number in range(3)] == [[b"still alive"]] * 3
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_garbled_bytes_decode_to_a_message_or_to_nothing() -> None:
    chance = random.Random(5)
    item = Item(STRANGER.id, bytes(8), 3, True, (STRANGER.id,), b"payload")
    good = [
        encode(Cast("/t", (item,), ((SOURCE, 1, ((3, 3),)),), bytes(8))),
        encode(
            Received(
                "/t",
                ((STRANGER.id, 1, 1, bytes(8), ((SOURCE, 5, ((7, 8),)),)),),
                (),
                bytes(8),
                True,
                False,
            )
        ),
        encode(Aside("/t", "stubborn", bytes(8), 1, b"x")),
    ]
    for _ in range(3000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(WireError):
            decode(bytes(data))


class Extremes:
    """Makes messages whose fields are at random what is known, unknown, or at the end of its range."""

    def __init__(self, seed: int, troupe: Troupe) -> None:
        self._chance = random.Random(seed)
        entries = [actor.core.membership.participants[actor.contact.id] for actor in troupe.alive()]
        lives = [entry.source for entry in entries]
        boots = [entry.boot + more for entry in entries for more in (0, 1)]
        self._choices: dict[Any, list[Any]] = {
            type(None): [None],
            bool: [False, True],
            int: [-1, 0, 1, 2, 3, *boots, *ENDS],
            str: [
                "",
                "/topic",
                "best-effort",
                "stubborn",
                "direct",
                "taken",
                "refused",
                "x" * 5000,
            ],
            bytes: [b"", bytes(8), troupe.actors[0].core.membership.digest, SOURCE, *lives],
            Contact: [*troupe.contacts, STRANGER],
            PeerId: [*(contact.id for contact in troupe.contacts), STRANGER.id],
        }

    def make(self, hint: Any) -> Any:
        """A value of a type; `UsageError` where a message does not exist like that."""
        if hint in self._choices:
            return self._chance.choice(self._choices[hint])
        if is_dataclass(hint):
            hints = get_type_hints(hint)
            return hint(*(self.make(hints[field.name]) for field in fields(hint)))
        arguments = get_args(hint)
        if get_origin(hint) is tuple and arguments[1:] == (...,):
            return tuple(self.make(arguments[0]) for _ in range(self._chance.randint(0, 2)))
        if get_origin(hint) is tuple:
            return tuple(map(self.make, arguments))
        return self.make(self._chance.choice(arguments))  # one or None


@contextmanager
def watchdog(seconds: int) -> Iterator[None]:
    """Ends what never returns; far longer than any of it takes."""

    def bark(*_: object) -> None:
        raise TimeoutError("it does not return")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_message_says_nothing_raises_and_everything_returns(seed: int) -> None:
    troupe = joined(seed, 3, logged=seed % 2 == 0)
    for number in range(3):
        troupe.broadcast(number)
    extremes, chance = Extremes(seed, troupe), random.Random(seed)
    actor = troupe.actors[0]
    aside = AsideMessages(
        "/topic",
        actor,
        BroadcastConfig(),
        actor.core.membership,
        lambda delivery: chance.random() < 0.5,
        lambda sender, payload: None,
        lambda: None,
    )
    made = dict.fromkeys(MESSAGES, 0)
    with watchdog(60):
        while min(made.values()) < 100:
            kind = chance.choice(MESSAGES)
            try:
                message = extremes.make(kind)
            except UsageError:
                continue
            made[kind] += 1
            assert decode(encode(message)) == message
            sender = chance.choice([*troupe.contacts, STRANGER])
            if isinstance(message, Aside):
                aside.receive(sender, message)
            else:
                actor.receive(sender, message)
            if chance.random() < 0.1:
                troupe.run(0.5)
        troupe.run(30.0)


def test_a_participant_says_itself_what_its_channels_and_its_view_are() -> None:
    troupe = joined(1, 3)
    membership = troupe.actors[0].core.membership
    mine = membership.participants[membership.me]
    others = tuple(contact.id for contact in troupe.contacts[1:])
    lies = Knowledge(
        "/topic",
        (),
        (Row(mine.id, mine.boot, LARGEST, others),),
        Sight(membership._knowledge.view_fingerprint, b"\xff"),
        bytes(8),
        False,
    )
    membership.receive_knowledge(troupe.contacts[1], lies)
    troupe.crash(2)
    troupe.run(10.0)
    assert membership.is_stable
    assert len(membership.view.members) == 2


def test_one_that_is_said_to_have_begun_at_the_end_of_time_goes_on() -> None:
    troupe = joined(2, 2)
    membership = troupe.actors[0].core.membership
    mine = membership.participants[membership.me]
    for boot in (LARGEST, LARGEST - 1):
        lie = Knowledge("/topic", (replace(mine, boot=boot),), (), None, bytes(8), True)
        membership.receive_knowledge(troupe.contacts[1], lie)
    troupe.broadcast(0, b"still here")
    troupe.run(5.0)
    assert payloads_at(troupe, 1) == [b"still here"]
