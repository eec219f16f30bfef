"""The append-file store on a disk that loses its power at every operation, and at every byte of a write.

After each crash the store has every batch whose sync returned, and all or nothing of the one under way.
"""

from __future__ import annotations

import pytest

from overlay.virtual.disk import VirtualDisk, VirtualFile
from pubsub.archive.store import Change, PutEntity, Reserve, StoreError
from pubsub.archive.store.append_files import AppendFileStore
from tests.pubsub.archive.store.plain_store import PlainStore
from tests.pubsub.archive.store.schedules import TOPICS, Schedule, event
from tests.pubsub.archive.store.test_conformance import assert_same

SEGMENT = 1500


class Crashing:
    """Runs one schedule on one disk, through any number of crashes, and knows what must be there."""

    def __init__(self, seed: int) -> None:
        self.disk = VirtualDisk(seed)
        self.schedule = Schedule(seed)
        self.synced: list[list[Change]] = []
        self.under_way: list[Change] | None = None

    def run(self, batches: int) -> bool:
        """Write on until done or until the power is cut; whether it was."""
        try:
            store = AppendFileStore(self.disk, "/archive", segment_bytes=SEGMENT)
            for _ in range(batches):
                self.under_way = self.schedule.batch()
                store.write(self.under_way)
                store.sync()
                self.synced.append(self.under_way)
                self.under_way = None
            store.close()
        except StoreError:
            return True
        return False

    def check(self) -> None:
        """Come up again, sometimes after the program alone was killed, and always after a loss of power."""
        if self.schedule.chance.random() < 0.5:
            self.disk.kill()
            self._compare()
        self.disk.crash()
        self._compare()

    def _compare(self) -> None:
        """Open, and compare with the batches that were synced, and with one more if that fits."""
        store = AppendFileStore(self.disk, "/archive", segment_bytes=SEGMENT)
        torn = [damage for damage in store.damage() if damage.reason == "torn"]
        assert len(torn) == len(store.damage()), f"a crash is no corruption: {store.damage()}"
        skipped: list[Change] = [Reserve(damage.topic, damage.span.last) for damage in torn]
        if self.under_way is not None and self._agrees(store, [self.under_way, skipped]):
            self.synced.append(self.under_way)
        self.under_way = None
        self.synced.append(skipped)
        assert_same(store, self._plain([]))
        assert all(damage.reason == "torn" for damage in store.verify())
        store.close()

    def _plain(self, more: list[list[Change]]) -> PlainStore:
        plain = PlainStore()
        for batch in (*self.synced, *more):
            plain.apply(batch)
        return plain

    def _agrees(self, store: AppendFileStore, more: list[list[Change]]) -> bool:
        try:
            assert_same(store, self._plain(more))
        except AssertionError:
            return False
        return True


def crash_at_every_operation(seed: int, batches: int) -> int:
    whole = Crashing(seed)
    assert not whole.run(batches)
    for operation in range(1, whole.disk.operations + 1):
        crashing = Crashing(seed)
        crashing.disk.cut_power_at(operation)
        assert crashing.run(batches), f"seed {seed}: operation {operation} was not reached"
        try:
            crashing.check()
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, power cut at operation {operation}: {error}"
            ) from None
    return whole.disk.operations


def crash_again_and_again(seed: int, crashes: int) -> None:
    crashing = Crashing(seed)
    for _ in range(crashes):
        cut = crashing.disk.operations + crashing.schedule.chance.randrange(1, 60)
        crashing.disk.cut_power_at(cut)
        crashing.run(10)
        try:
            crashing.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, power cut at operation {cut}: {error}") from None
        for topic in TOPICS:  # go on above the numbers that a torn batch cost
            store = AppendFileStore(crashing.disk, "/archive", segment_bytes=SEGMENT)
            crashing.schedule.go_on_above(topic, store.last_sequence(topic))
            store.close()


def crash_many(seeds: int) -> None:
    for seed in range(seeds):
        crash_again_and_again(seed, 8)


@pytest.mark.parametrize("seed", range(2))
def test_a_loss_of_power_at_every_operation_costs_nothing_that_was_synced(seed: int) -> None:
    assert crash_at_every_operation(seed, 12) > 40


@pytest.mark.parametrize("seed", range(3))
def test_one_crash_after_the_other_costs_nothing_that_was_synced(seed: int) -> None:
    crash_again_and_again(seed, 8)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_seeds_lose_nothing_that_was_synced(seed: int) -> None:
    crash_again_and_again(seed, 12)


def test_a_last_write_cut_at_any_byte_is_dropped_whole() -> None:
    disk = VirtualDisk()
    store = AppendFileStore(disk, "/archive")
    store.write([PutEntity("/soccer", "anna", 0, b""), event(1), event(2)])
    store.sync()
    before = disk.image()
    store.write([event(3), event(4, body=b"x" * 100)])
    (log,) = (path for path in before if path.endswith(".log"))
    written = disk.image()[log]
    for length in range(len(before[log]) + 1, len(written)):
        again = AppendFileStore(VirtualDisk.of({**before, log: written[:length]}), "/archive")
        assert [one.sequence for one in again.events("/soccer", 0, 10)] == [1, 2], length
        assert {damage.reason for damage in again.damage()} == {"torn"}
        assert again.last_sequence("/soccer") >= 4, "numbers of the torn batch are not used again"
    whole = AppendFileStore(VirtualDisk.of({**before, log: written}), "/archive")
    assert whole.events("/soccer", 0, 10)[-1] == event(4, body=b"x" * 100)
    assert whole.damage() == ()


def shown_after_a_kill_and_kept_after_a_loss_of_power(seed: int) -> tuple[list[int], list[int]]:
    """A process is killed between writing and syncing, the next one reads, and then the power goes."""
    disk = VirtualDisk(seed)
    store = AppendFileStore(disk, "/archive")
    store.write([event(1)])
    store.sync()
    store.write([event(2)])
    disk.kill()
    reading = AppendFileStore(disk, "/archive")
    shown = [one.sequence for one in reading.events("/soccer", 0, 10)]
    disk.crash()
    after = AppendFileStore(disk, "/archive")
    return shown, [one.sequence for one in after.events("/soccer", 0, 10)]


def test_what_a_reopened_store_has_shown_survives_a_loss_of_power() -> None:
    for seed in range(20):
        shown, kept = shown_after_a_kill_and_kept_after_a_loss_of_power(seed)
        assert kept == shown, f"seed {seed}"


def test_every_batch_is_synced_once() -> None:
    disk = VirtualDisk()
    store = AppendFileStore(disk, "/archive")
    syncs = disk.syncs
    for number in range(1, 11):
        store.write([event(10 * number + more) for more in range(10)])
        store.sync()
    assert disk.syncs == syncs + 10


def test_a_store_that_acknowledges_before_the_sync_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VirtualFile, "sync", lambda file: None)
    with pytest.raises(AssertionError, match="power cut at operation"):
        crash_many(10)


def test_a_store_that_keeps_half_a_batch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub.archive.store.log_index._is_whole", lambda records: True)
    with pytest.raises(AssertionError, match="power cut at operation"):
        crash_many(20)


def test_a_new_file_whose_name_is_not_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualDisk, "sync_directory", lambda disk, directory: None)
    with pytest.raises(AssertionError, match="power cut at operation"):
        crash_many(10)
