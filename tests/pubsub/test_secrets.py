"""Encrypted topics: those with the right to subscribe read, and archives and others do not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.virtual import Network
from overlay.wire import WireError
from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.gate import ASK_AGAIN_SECONDS
from pubsub.rights import Action, revoke
from pubsub.secrets import (
    FORGOTTEN_SECONDS,
    GIVE_UP_SECONDS,
    KEY_SECONDS,
    MOST_KEYS,
    GiveKey,
    Secrets,
)
from tests.pubsub.test_subscribing_rights import (
    MALLORY,
    OTHER,
    OTHER_READS,
    READER,
    ROOT,
    TO_READ,
    TO_WRITE,
    WRITER,
    Party,
    play,
    right_of,
)

TOPIC = "/soccer"
SECRET = {"goal": "in the 89th minute"}


@asynccontextmanager
async def reading(node: Node) -> AsyncIterator[list[Any]]:
    """What a node reads of the topic, in the clear."""
    read: list[Any] = []

    async def take(events: Any) -> None:
        async for event in node.decrypted(events):
            read.append(event.data)

    async with node.subscribe(TOPIC) as events:
        task = asyncio.ensure_future(take(events))
        yield read
        task.cancel()


@pytest.mark.parametrize("seed", [1, 2])
def test_those_with_the_right_read_and_no_copy_has_the_data_in_the_clear(seed: int) -> None:
    async def main(party: Party) -> None:
        writer = await party.node(WRITER, TO_WRITE.packed)
        reader = await party.node(READER, TO_READ.packed)
        other = await party.node(OTHER, OTHER_READS.packed)
        async with (
            reading(reader) as read,
            reading(other) as read_too,
            other.subscribe(TOPIC) as raw,
        ):
            for number in range(20):
                await writer.publish(TOPIC, [number, SECRET], encrypt=True)
            await writer.publish(TOPIC, "not a secret")
            await asyncio.sleep(3.0)
            expected = [*([number, SECRET] for number in range(20)), "not a secret"]
            assert (
                sorted(map(str, read)) == sorted(map(str, read_too)) == sorted(map(str, expected))
            )
            sealed = [(await anext(aiter(raw))).data for _ in range(21)]
            assert not any(b"goal" in repr(data).encode() for data in sealed)
            assert writer.metrics.as_dict()["secret_keys"] == {"made": 1, "given": 2}

    play(main, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_lost_the_right_cannot_read_what_comes_later(seed: int) -> None:
    async def main(party: Party) -> None:
        writer = await party.node(WRITER, TO_WRITE.packed)
        reader = await party.node(READER, TO_READ.packed)
        other = await party.node(OTHER, OTHER_READS.packed)
        async with reading(reader) as read, reading(other) as others_read:
            await writer.publish(TOPIC, "before", encrypt=True)
            await asyncio.sleep(2.0)
            assert read == others_read == ["before"]
            await other.revoke(revoke(TO_READ, ROOT))
            await asyncio.sleep(2.0)
            await writer.publish(TOPIC, "after", encrypt=True)
            await asyncio.sleep(2.0)
            assert others_read == ["before", "after"]
            # Somebody hands it the event all the same: nobody gives it the key.
            topic, name = next(reversed(other._protection.secrets._known))  # type: ignore[union-attr]
            sealed = {"camcast.key": name, "camcast.sealed": bytes(40)}
            reader._protection.secrets.want(topic, writer.id, sealed, lambda: None)  # type: ignore[union-attr]
            await asyncio.sleep(ASK_AGAIN_SECONDS)
            assert (topic, name) not in reader._protection.secrets._known  # type: ignore[union-attr]
            assert read == ["before"]

    play(main, seed=seed)


def test_a_member_without_the_right_is_given_no_key() -> None:
    async def main(party: Party) -> None:
        writer = await party.node(WRITER, TO_WRITE.packed)
        mallory = await party.node(MALLORY, right_of(MALLORY, Action.SUBSCRIBE, "/tennis").packed)
        sealed = writer._protection.secrets.seal(TOPIC, SECRET)  # type: ignore[union-attr]
        secrets = mallory._protection.secrets
        assert secrets is not None
        secrets._peers = lambda publisher: [writer.attachment.contact]
        done = asyncio.Event()
        secrets.want(TOPIC, writer.id, sealed, done.set)
        await done.wait()
        with pytest.raises(WireError, match="no_key"):
            secrets.open(TOPIC, writer.id, sealed)
        assert writer.metrics.as_dict()["rights_refused"]["AskKey"] >= 1  # type: ignore[index]

    play(main)


def test_an_archive_replays_what_it_cannot_read_and_the_subscriber_reads_it(tmp_path: Path) -> None:
    async def main(party: Party) -> None:
        keeper = Identity(b"k" * 32)
        to_keep = right_of(keeper, Action.ARCHIVE, "/soccer/**").packed
        both = right_of(WRITER, Action.PUBLISH | Action.SUBSCRIBE, "/soccer/**").packed
        writer = await party.node(WRITER, both)
        store = f"sqlite:///{tmp_path}/archive.db"
        await party.enter(Archive, [TOPIC], store=store, identity=keeper, rights=(to_keep,))
        for number in range(5):
            await writer.publish(TOPIC, [number, SECRET], encrypt=True, durable=True)
        may_replay = right_of(READER, Action.SUBSCRIBE | Action.REPLAY, "/soccer/**").packed
        reader = await party.node(READER, may_replay)
        read = []
        async with reader.subscribe(TOPIC, durable="me", since="beginning") as events:
            async for event in reader.decrypted(events):
                read.append(event.data)
                if len(read) == 5:
                    break
        assert read == [[number, SECRET] for number in range(5)]

    play(main)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("archive.db*"))
    assert b"camcast.sealed" in stored
    assert b"89th" not in stored


def test_encryption_needs_an_authority() -> None:
    async def main() -> None:
        async with Node(listen="127.0.0.1:4000", keys=[bytes(32)]) as node:
            with pytest.raises(UsageError, match="authority"):
                await node.publish(TOPIC, SECRET, encrypt=True)

    Network(1).run(main())


# The core alone.


class World:
    """A context, and a clock that is told the time."""

    def __init__(self, who: int) -> None:
        self.contact = Contact(PeerId(bytes([who]) * 20), "10.0.0.1", who)
        self.random = random.Random(who)
        self.time = 0.0
        self.sent: list[tuple[Contact, Any]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.revoked = b""
        self.peers: Iterable[Contact] = ()
        self.secrets = Secrets(
            self, self.random, lambda: self.revoked, lambda publisher: self.peers, Metrics()
        )

    def now(self) -> float:
        return self.time

    def send(self, to: Contact, message: object) -> None:
        self.sent.append((to, message))

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        timer = (self.time + delay, action)
        self.timers.append(timer)
        timers = self.timers

        class Set:
            def cancel(self) -> None:
                if timer in timers:
                    timers.remove(timer)

        return Set()

    def go_on(self, seconds: float) -> None:
        end = self.time + seconds
        while self.timers and min(when for when, _ in self.timers) <= end:
            self.time, action = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove((self.time, action))
            action()
        self.time = end


def test_a_key_changes_with_time_and_with_what_is_taken_back_and_not_otherwise() -> None:
    alice = World(1)
    names = [alice.secrets.seal(TOPIC, 1)["camcast.key"] for _ in range(3)]
    assert len(set(names)) == 1
    alice.revoked = b"one"
    names.append(alice.secrets.seal(TOPIC, 1)["camcast.key"])
    alice.go_on(KEY_SECONDS)
    names.append(alice.secrets.seal(TOPIC, 1)["camcast.key"])
    names.append(alice.secrets.seal("/other", 1)["camcast.key"])
    assert len(set(names)) == 4


def test_sealed_data_open_only_as_their_publishers_and_in_their_topic_and_unaltered() -> None:
    alice, bob = World(1), World(2)
    sealed = alice.secrets.seal(TOPIC, SECRET)
    bob.secrets.want(TOPIC, alice.contact.id, sealed, lambda: None)
    (_, _), key = next(iter(alice.secrets._known.items()))
    bob.secrets.receive_key(alice.contact, GiveKey(TOPIC, key))
    assert bob.secrets.open(TOPIC, alice.contact.id, sealed) == SECRET
    with pytest.raises(WireError, match="not_authentic"):
        bob.secrets.open(TOPIC, bob.contact.id, sealed)
    with pytest.raises(WireError, match="no_key"):
        bob.secrets.open("/other", alice.contact.id, sealed)
    for change in (b"", b"short", sealed["camcast.sealed"][:-1] + b"x"):
        with pytest.raises(WireError, match="not_authentic"):
            bob.secrets.open(TOPIC, alice.contact.id, {**sealed, "camcast.sealed": change})
    for plain in (SECRET, None, {"camcast.key": b"x", "camcast.sealed": b"y"}, {**sealed, "z": 1}):
        assert bob.secrets.open(TOPIC, alice.contact.id, plain) == plain


def test_a_key_is_asked_for_until_it_comes_or_is_given_up_and_only_the_right_one_is_taken() -> None:
    alice, bob = World(1), World(2)
    bob.peers = [alice.contact]
    sealed = alice.secrets.seal(TOPIC, SECRET)
    came: list[float] = []
    for _ in range(2):
        bob.secrets.want(TOPIC, alice.contact.id, sealed, lambda: came.append(bob.time))
    bob.go_on(2.0)
    assert 3 <= len(bob.sent) <= 6
    bob.secrets.receive_key(alice.contact, GiveKey(TOPIC, bytes(32)))
    assert not came
    bob.go_on(GIVE_UP_SECONDS)
    assert len(came) == 2
    assert not bob.timers
    assert not bob.secrets.is_known(TOPIC, sealed)


def test_a_publisher_that_names_keys_that_nobody_has_holds_readers_up_for_20_s_in_all() -> None:
    bob, honest = World(2), World(3)

    def wait_for(publisher: Contact, name: bytes) -> float:
        """Seconds that a reader waits."""
        came: list[float] = []
        began = bob.time
        data = {"camcast.key": name.ljust(16, b"-"), "camcast.sealed": bytes(40)}
        bob.secrets.want(TOPIC, publisher.id, data, lambda: came.append(bob.time))
        while not came:
            bob.go_on(0.1)
        return came[0] - began

    hostile = World(1).contact
    assert wait_for(hostile, b"one") == GIVE_UP_SECONDS
    assert sum(wait_for(hostile, b"one") for _ in range(20)) == 0.0
    held_up = sum(wait_for(hostile, b"%d" % number) for number in range(300))
    assert GIVE_UP_SECONDS / 2 <= held_up <= 1.2 * GIVE_UP_SECONDS
    assert wait_for(honest.contact, b"another") == GIVE_UP_SECONDS
    bob.go_on(FORGOTTEN_SECONDS)
    assert wait_for(hostile, b"one") == GIVE_UP_SECONDS


def test_a_key_that_was_given_up_is_taken_when_it_comes_for_a_later_event() -> None:
    alice, bob = World(1), World(2)
    bob.peers = [alice.contact]
    sealed = alice.secrets.seal(TOPIC, SECRET)
    for _ in range(2):
        bob.secrets.want(TOPIC, alice.contact.id, sealed, lambda: None)
        bob.go_on(GIVE_UP_SECONDS)
    bob.secrets.want(TOPIC, alice.contact.id, sealed, lambda: None)
    (key,) = alice.secrets._known.values()
    bob.secrets.receive_key(alice.contact, GiveKey(TOPIC, key))
    assert bob.secrets.open(TOPIC, alice.contact.id, sealed) == SECRET


def test_keys_are_bounded() -> None:
    alice = World(1)
    for number in range(MOST_KEYS + 50):
        alice.secrets.seal(f"/t{number}", 1)
    assert len(alice.secrets._known) == len(alice.secrets._own) == MOST_KEYS
