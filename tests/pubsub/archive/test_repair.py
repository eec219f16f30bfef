"""Damaged events: fetched from whichever replica has them, and otherwise told as a gap, in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pytest

from pubsub.archive.store.changes import Change, StoredEvent
from pubsub.archive.store.retention import Retention
from pubsub.archive.store.segment import IDS_SYNC, Records
from pubsub.reliable.runs import Gap
from tests.pubsub.archive.checkers import lost, verdict
from tests.pubsub.archive.harness import (
    CONFIG,
    TOPIC,
    ArchiveActor,
    PublisherActor,
    Simulation,
    StageCommit,
    SubscriberActor,
)
from tests.pubsub.archive.schedules import BUSY, QUIET, break_things, fill
from tests.pubsub.archive.schedules import publish as publish_all
from tests.pubsub.archive.sqlite_archive import SqliteArchive

EVENTS = 20


def damage(archive: ArchiveActor, id: bytes) -> None:
    """Flip a bit of an event in the file of an archive that is down."""
    stored = id + TOPIC.encode()
    (place,) = [
        (path, contents.index(stored))
        for path, contents in archive.disk.image().items()
        if stored in contents
    ]
    archive.disk.flip(place[0], 8 * place[1])


def lose(archive: ArchiveActor, id: bytes) -> None:
    """Damage both headers of an event's record, so that nothing can be read of it."""
    for path, contents in archive.disk.image().items():
        if path.endswith(".log"):
            salt = bytes.fromhex(path.partition("-")[2].removesuffix(".log"))
            for one in Records(salt).scan(contents):
                if one.header is not None and one.header.id == id:
                    archive.disk.flip(path, 8 * one.offset)
                    archive.disk.flip(path, 8 * (one.end - 1))


def start(seed: int) -> tuple[Simulation, SubscriberActor, PublisherActor]:
    """Two replicas with twenty events, and a reader that was registered before them and is away."""
    sim = Simulation(seed, archives=2)
    sim.stage.run(6)
    reader = SubscriberActor(sim, 120, "exact", ordered=True, remembers=True)
    sim.subscribers = [reader]
    sim.stage.run_for(2)
    reader.crash()
    publisher = PublisherActor(sim, 110)
    sim.publishers = [publisher]
    sim.stage.run_for(2)
    return sim, reader, publisher


def publish(sim: Simulation) -> list[bytes]:
    """The ids of the events, which are safe."""
    for number in range(EVENTS):
        sim.stage.call_at(sim.stage.now + number * 0.02, sim.publishers[0].publish)
    sim.stage.run_for(5)
    assert len(sim.history.acknowledged) == EVENTS
    return list(sim.history.acknowledged)


def told_ids(reader: SubscriberActor, stored: dict[int, bytes]) -> set[bytes]:
    """The ids of the events that a reader was told to miss; `stored`: those that the archive had, by its
    numbers."""
    ids: set[bytes] = set()
    for gap in reader.gaps:
        for number in range(gap.first, gap.last + 1):
            id = gap.run + number.to_bytes(8, "big") if gap.publisher else stored.get(number)
            ids |= {id} if id is not None else set()
    return ids


def assert_told(sim: Simulation, reader: SubscriberActor, id: bytes) -> None:
    assert lost(sim.history, "exact") == [id]
    (gap,) = reader.gaps
    assert gap == Gap(
        sim.publishers[0].contact.id, id[:8], *[int.from_bytes(id[8:], "big")] * 2, "lost"
    )
    assert len(reader.deliveries) == EVENTS - 1


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_gap_is_told_though_another_replica_is_gone_for_good(forgotten: bool) -> None:
    sim, reader, _ = start(5)
    ids = publish(sim)
    one, other = sim.archives
    other.crash()
    one.crash()
    damage(one, ids[7])
    one.start()
    reader.start()
    sim.stage.run_for(60)
    assert len(reader.deliveries) == 7, "it may come back with the event"
    assert not reader.gaps
    if forgotten:
        assert one.core.replication.forget_replica(other.replica)
        assert not one.core.replication.forget_replica(other.replica)
    else:
        sim.stage.run_for(CONFIG.absence)
    sim.stage.run_for(10)
    assert_told(sim, reader, ids[7])


def test_an_event_of_which_nothing_can_be_read_is_fetched_from_another_replica() -> None:
    sim, reader, publisher = start(11)
    ids = publish(sim)
    for number in range(2 * IDS_SYNC):  # until the ids are on the disk twice
        sim.stage.call_at(sim.stage.now + number * 0.02, publisher.publish)
    sim.stage.run_for(5)
    one, other = sim.archives
    one.crash()
    lose(one, ids[7])
    one.start()
    assert not one.store.sequences(TOPIC, [ids[7]])
    sim.stage.run_for(10)
    assert one.store.sequences(TOPIC, [ids[7]])
    other.crash()
    reader.start()
    sim.stage.run_for(30)
    assert not reader.gaps
    assert not verdict(sim.history, "exact", ordered=True)


def test_an_event_is_waited_for_while_its_replica_may_come_back() -> None:
    sim, reader, _ = start(6)
    ids = publish(sim)
    one, other = sim.archives
    other.crash()
    one.crash()
    damage(one, ids[7])
    one.start()
    reader.start()
    sim.stage.run_for(CONFIG.absence / 2)
    other.start()
    sim.stage.run_for(60)
    assert not reader.gaps
    assert not verdict(sim.history, "exact", ordered=True)


def test_a_gap_is_told_when_the_other_replica_has_removed_the_event() -> None:
    sim, reader, _ = start(7)
    ids = publish(sim)
    one, other = sim.archives
    one.crash()
    other.core.forget_old(Retention(max_count=0, drop_unseen=True))
    sim.stage.run_for(1)
    assert not other.store.sequences(TOPIC, ids)
    damage(one, ids[7])
    one.start()
    sim.stage.run_for(15)
    other.crash()
    reader.start()
    sim.stage.run_for(30)
    assert_told(sim, reader, ids[7])


def test_what_both_replicas_got_from_the_publisher_is_repaired() -> None:
    sim, reader, publisher = start(8)
    sim.apart = True
    for _ in range(EVENTS):
        publisher.publish()
        sim.stage.run_for(0.02)
    sim.stage.run_for(2)
    assert publisher.core.archive is not None
    one, other = sim.archives
    if one.contact.id != publisher.core.archive.id:
        one, other = other, one
    one.crash()
    publisher.publish()  # which finds the other archive, and fills what that lacks
    sim.stage.run_for(20)
    ids = list(sim.history.acknowledged)
    assert len(other.store.sequences(TOPIC, ids)) == EVENTS + 1
    one.start()
    sim.apart = False
    sim.stage.run_for(10)
    one.crash()
    damage(one, ids[-3])
    one.start()
    sim.stage.run_for(10)
    assert len(one.store.sequences(TOPIC, ids)) == EVENTS + 1
    other.crash()
    reader.start()
    sim.stage.run_for(30)
    assert not reader.gaps
    assert not verdict(sim.history, "exact", ordered=True)


@pytest.mark.parametrize(("alone", "place"), [(False, 30), (True, 30), (False, 3)])
def test_a_changed_byte_in_a_file_of_sqlite_is_repaired_or_told(
    alone: bool, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`place`: from the event's id on, which is before its body."""
    monkeypatch.setattr(SqliteArchive, "directory", tmp_path, raising=False)
    monkeypatch.setattr(Simulation, "make_archive_class", SqliteArchive)
    sim, reader, _ = start(9)
    ids = publish(sim)
    one, other = sim.archives
    assert isinstance(one, SqliteArchive)
    (event,) = one.store.read(TOPIC, one.store.sequences(TOPIC, [ids[7]]).values())
    one.crash()
    other.crash()
    contents = bytearray(one.path.read_bytes())
    contents[contents.index(event.id + event.body) + place] ^= 4
    one.path.write_bytes(contents)
    one.start()
    if alone:
        one.core.replication.forget_replica(other.replica)
    else:
        other.start()
    sim.stage.run_for(10)
    reader.start()
    sim.stage.run_for(30)
    if alone:
        assert_told(sim, reader, ids[7])
    else:
        assert not reader.gaps
        assert not verdict(sim.history, "exact", ordered=True)
    for archive in sim.archives:
        archive.store.close()


class NotingCommit(StageCommit):
    """Notes which events were ever stored under which numbers, by archive."""

    stored: ClassVar[dict[bytes, dict[int, bytes]]] = {}

    def __call__(self, changes: Sequence[Change], then: Callable[[], None]) -> None:
        numbers = self.stored.setdefault(self._context.contact.id, {})
        for change in changes:
            if isinstance(change, StoredEvent):
                numbers[change.sequence] = change.id
        super().__call__(changes, then)


class RottingArchive(ArchiveActor):
    """Bits of the first archive's files flip whenever it is down."""

    commit_class = NotingCommit

    def crash(self) -> None:
        super().crash()
        if self is self.sim.archives[0]:
            for _ in range(self.flips.choice((1, 1, 2, 5))):
                self.disk.flip_somewhere()

    @cached_property
    def flips(self) -> random.Random:
        return random.Random(f"{self.sim.stage.seed} rot")


class RottingSimulation(Simulation):
    make_archive_class = RottingArchive


def run_rotting(seed: int) -> tuple[Simulation, set[bytes]]:
    """A schedule of faults in which the first archive's disk rots; and what only that one ever had."""
    NotingCommit.stored.clear()
    sim = RottingSimulation(
        seed,
        archives=3,
        loss=0.1 * (seed % 3),
        duplicate=0.1 * (seed % 2),
        latency=(0.001, 0.001 + 0.05 * (seed % 4)),
        skew=1.0,
    )
    fill(sim, copies=2)
    publish_all(sim, 60)
    break_things(sim, 12, [*sim.archives, *sim.archives, *sim.publishers, *sim.subscribers])
    first = sim.archives[0]
    for time in (8.0, 16.0):
        sim.stage.call_at(time, lambda: first.crash() if first.up else None)
        sim.stage.call_at(time + 2, lambda: None if first.up else first.start())
    sim.stage.run(BUSY + QUIET)
    others = [set(one.store.sequences(TOPIC, sim.history.published)) for one in sim.archives[1:]]
    return sim, set(sim.history.published) - others[0] - others[1]


@pytest.mark.parametrize("seed", [1005, 1009, 1010, 1011, 1020, 1028, 1035])
def test_bits_that_flip_at_one_archive_cost_nobody_an_event_that_another_one_has(seed: int) -> None:
    sim, only_there = run_rotting(seed)
    for subscriber in sim.subscribers:
        assert not verdict(sim.history, subscriber.name, ordered=subscriber.ordered)
        told = sum(gap.count for gap in subscriber.gaps)
        assert told <= len(only_there), f"{subscriber.gaps} though others have all but {only_there}"


@pytest.mark.sweep
@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(2000, 2200, 20)])
def test_bits_that_flip_at_one_archive_by_many_seeds(seeds: range) -> None:
    """Where two places of one record are damaged, numbers may be told that were none of an event."""
    for seed in seeds:
        sim, only_there = run_rotting(seed)
        stored = NotingCommit.stored[sim.archives[0].contact.id]
        for subscriber in sim.subscribers:
            assert not verdict(sim.history, subscriber.name, ordered=subscriber.ordered), seed
            assert told_ids(subscriber, stored) <= only_there, seed
