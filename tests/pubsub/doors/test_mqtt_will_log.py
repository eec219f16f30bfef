"""Segments of wills: an archive and other doors that are played by hand, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from overlay.virtual import Network
from pubsub.archive.errors import ArchiveError
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.other_doors import BEAT_SECONDS, SILENT_SECONDS, TURN_SECONDS, OtherDoors
from pubsub.doors.mqtt.will_log import WillLog
from pubsub.doors.mqtt.wills import SEGMENT_BYTES, KeptWill, Wills
from pubsub.node import Node
from tests.pubsub.doors.mqtt_hub import Clock

WILL = KeptWill(MqttMessage("orders/wills", b"gone", 2), 0.0)


class Events:
    """A durable subscription, which brings nothing."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive, self._name = archive, name
        self._ended = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> None:
        self._archive.is_asked.set()
        await asyncio.sleep(0.5)
        if self._archive.is_away:
            raise ArchiveError("no answer")
        self._archive.names[self._name] = self

    async def fetch(self, most: int, *, keep: bool) -> list[Any]:
        await self._ended
        raise ArchiveError("the archive does not register the name again")

    def refuse(self) -> None:
        self._ended.set_result(None)

    async def close(self) -> None:
        if self._archive.names.get(self._name) is self:
            del self._archive.names[self._name]

    async def leave(self) -> None:
        if self._archive.names.get(self._name) is self:
            await self.close()
            self._archive.forgotten.append(self._name)


class Archive:
    """The node's side of an archive, and the hub's that the log tells of it."""

    def __init__(self) -> None:
        self.names: dict[str, Events] = {}
        self.forgotten: list[str] = []
        self.told: list[bytes] = []
        self.is_away = False
        self.is_asked = asyncio.Event()
        self.doors = self

    def subscribe(self, topic: str, durable: str, **options: Any) -> Events:
        return Events(self, durable)

    async def keep(self, topic: str, data: Any, deadline: float) -> None:
        assert not self.is_away

    def keeps(self, segments: Iterable[bytes]) -> None:
        self.told = list(segments)

    def drop(self, reason: str) -> None:
        assert reason == "archive_lost"


@pytest.mark.parametrize("ends", ["later", "meanwhile"])
def test_a_segment_whose_subscription_the_archive_has_ended_is_opened_again(ends: str) -> None:
    async def main() -> None:
        archive = Archive()
        log = WillLog(cast(Node, archive), asyncio.get_running_loop().create_task)
        log.hub = cast(Hub, archive)
        id = await log.keep(WILL, b"")
        (name,) = archive.names
        archive.is_away = True
        archive.names[name].refuse()
        await asyncio.sleep(6)
        assert not archive.names
        assert archive.told == [id[:SEGMENT_BYTES]], (
            "it is still this door's, for others to inherit"
        )
        archive.is_away = False
        if ends == "later":
            await asyncio.sleep(3)
            assert list(archive.names) == [name]
            another = await log.keep(WILL, b"")
            assert another[:SEGMENT_BYTES] != id[:SEGMENT_BYTES], "it takes no more"
            log.over(id)
        else:
            archive.is_asked.clear()
            await archive.is_asked.wait()
            log.over(id)
        await asyncio.sleep(3)
        assert archive.forgotten == [name]
        assert id[:SEGMENT_BYTES] not in archive.told

    Network(1).run(main())


def test_a_segment_that_the_first_in_turn_has_not_heard_of_is_inherited_by_one_that_has() -> None:
    clock, inherited = Clock(), set[bytes]()
    door = OtherDoors(
        clock,
        b"a door",
        lambda *_: None,
        keeps_wills=True,
        on_inherit=lambda one: inherited.add(one),
    )
    segments = {b"segment %d" % number for number in range(20)}
    door.heard(b"killed", [], list(segments))
    taken: list[bytes] = []
    for _ in range(int((SILENT_SECONDS + TURN_SECONDS) / BEAT_SECONDS)):
        door.heard(b"new", [], taken)
        clock.run(BEAT_SECONDS)
        if inherited and not taken:
            assert 0 < len(inherited) < 20, (
                "the others are the new door's, which knows of one of them"
            )
            taken = sorted(segments - inherited)[:1]
    clock.run(2 * BEAT_SECONDS)
    assert inherited == segments - {*taken}


def test_a_segment_is_inherited_though_the_door_that_was_to_have_it_is_gone_too() -> None:
    clock = Clock()
    doors: dict[bytes, OtherDoors] = {}
    inherited: dict[bytes, list[bytes]] = {b"first": [], b"second": []}

    def add(name: bytes) -> None:
        def tell(*said: Any) -> None:
            for there, other in doors.items():
                if there != name and name in doors:
                    other.heard(name, *said)

        doors[name] = OtherDoors(
            clock, name, tell, keeps_wills=True, on_inherit=inherited[name].append
        )

    add(b"first")
    doors[b"first"].heard(b"killed", [], [b"a segment", b"another"])
    clock.run(SILENT_SECONDS + BEAT_SECONDS)
    assert inherited[b"first"] == [b"a segment", b"another"]
    doors[b"first"].settled(b"another")
    add(b"second")  # which has never heard of the door that was killed
    clock.run(TURN_SECONDS)
    assert not inherited[b"second"], "the first is still about to"
    del doors[b"first"]
    clock.run(SILENT_SECONDS + 2 * BEAT_SECONDS)
    assert inherited[b"second"] == [b"a segment"]


def test_a_closed_door_tells_nothing_and_heirs_nothing() -> None:
    clock, told, inherited = Clock(), list[Any](), list[bytes]()
    door = OtherDoors(
        clock,
        b"a door",
        lambda *said: told.append(said),
        keeps_wills=True,
        on_inherit=inherited.append,
    )
    door.heard(b"killed", [], [b"a segment"])
    door.close()
    before = len(told)
    door.keeps([b"another"])
    clock.run(SILENT_SECONDS + TURN_SECONDS)
    assert len(told) == before
    assert not inherited


def test_a_will_that_another_door_has_ended_does_not_come() -> None:
    clock, came = Clock(), list[bytes]()
    wills = Wills(
        clock,
        lambda message, done, id: came.append(message.payload),
        lambda client: wills.publish(client),
        lambda id: None,
        lambda id, then: then(),
    )
    for name, id in (("back", b"1" * 16), ("away", b"2" * 16)):
        wills.schedule(name, WILL._replace(delay=5.0), id)
        wills.inherit(id, WILL._replace(delay=5.0))
    wills.leave((b"1" * 16,))
    clock.run(6)
    assert came == [b"gone"], "the other one, once"
