"""What peers send never raises: it is dropped, or changes nothing that matters."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode
from pubsub.topic_broadcast.messages import Aside, Cast, Item, Received, source_of
from tests.pubsub.topic_broadcast.test_stable_phases import joined, payloads_at

STRANGER = numbered_contact(99)
SOURCE = source_of(STRANGER.id, 1)


def test_messages_that_contradict_themselves_do_not_exist() -> None:
    for make in (
        lambda: Item(STRANGER.id, 1, 0, False, (), b""),
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
        lambda: Aside("/t", "loud", 1, 1, b""),
    ):
        with pytest.raises(UsageError):
            make()


def test_nonsense_of_a_stranger_changes_nothing() -> None:
    troupe = joined(1, 3)
    core = troupe.actors[0].core
    own = source_of(core.membership.me, core.membership.life)
    digest = core.membership.digest
    core.receive_cast(
        STRANGER,
        Cast(
            "/t",
            (Item(core.membership.me, core.membership.life, 7, False, (), b"me?"),),
            (),
            digest,
        ),
    )
    core.receive_cast(STRANGER, Cast("/t", (Item(STRANGER.id, 1, 1, False, (), None),), (), digest))
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
    item = Item(STRANGER.id, 1, 3, True, (STRANGER.id,), b"payload")
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
        encode(Aside("/t", "stubborn", 1, 1, b"x")),
    ]
    for _ in range(3000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(WireError):
            decode(bytes(data))
