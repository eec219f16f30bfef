"""Changes of many callers share syncs, and nobody is answered before the sync that covers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from overlay.errors import ClosedError
from overlay.virtual import Network
from overlay.virtual.disk import VirtualDisk
from pubsub.archive.store import Change, GroupCommit, StoreError, open_store
from pubsub.archive.store.append_files import AppendFileStore
from tests.pubsub.archive.store.schedules import event

SYNC = 0.004


def store_on(disk: VirtualDisk) -> AppendFileStore:
    return AppendFileStore(disk, "/archive")


def test_what_comes_during_a_sync_shares_the_next_one() -> None:
    disk = VirtualDisk(sync_seconds=SYNC)
    net = Network(seed=1)

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        done: list[float] = []
        async with GroupCommit(store_on(disk)) as writer:

            async def one(number: int) -> None:
                await writer.commit([event(number)])
                done.append(round(loop.time() - start, 6))

            start = loop.time()
            tasks = [asyncio.ensure_future(one(1))]
            await asyncio.sleep(SYNC / 2)
            tasks += [asyncio.ensure_future(one(number)) for number in range(2, 101)]
            await asyncio.gather(*tasks)
            assert (writer.syncs, writer.changes) == (2, 100)
        return done

    assert net.run(main()) == [SYNC] + [2 * SYNC] * 99


def crash_while_writing(seed: int) -> tuple[list[int], list[int]]:
    """The events whose writing was answered before a crash, and those that were there after it."""
    disk, net = VirtualDisk(seed, sync_seconds=SYNC), Network(seed=seed)
    answered: list[int] = []

    async def archive() -> None:
        async with GroupCommit(store_on(disk)) as writer:
            for number in range(1, 100):
                await writer.commit([event(number)])
                answered.append(number)

    async def main() -> None:
        task = net.spawn("127.0.0.2", archive())
        await asyncio.sleep(SYNC * 5.5)
        net.crash("127.0.0.2")
        await asyncio.gather(task, return_exceptions=True)

    net.run(main())
    disk.crash()
    return answered, [one.sequence for one in store_on(disk).events("/soccer", 0, 100)]


def test_a_crash_before_the_sync_returns_answers_nobody_and_keeps_what_was_answered() -> None:
    runs = [crash_while_writing(seed) for seed in range(30)]
    for seed, (answered, kept) in enumerate(runs):
        assert kept[: len(answered)] == answered, f"seed {seed}"
        assert len(kept) <= len(answered) + 1, f"seed {seed}"
    assert any(kept == answered for answered, kept in runs), "no crash lost what was not synced"


def test_after_a_failure_nobody_is_answered() -> None:
    disk = VirtualDisk(sync_seconds=SYNC)
    net = Network(seed=1)

    async def main() -> None:
        writer = GroupCommit(store_on(disk))
        await writer.commit([event(1)])
        disk.cut_power_at(disk.operations + 2)
        results = await asyncio.gather(
            *(writer.commit([event(number)]) for number in range(2, 9)),
            return_exceptions=True,
        )
        assert all(isinstance(result, StoreError) for result in results)
        with pytest.raises(StoreError):
            writer.submit([event(9)])

    net.run(main())


def test_batches_are_cut_between_submissions() -> None:
    disk = VirtualDisk(sync_seconds=SYNC)
    net = Network(seed=1)

    async def main() -> int:
        async with GroupCommit(store_on(disk), max_batch=5) as writer:
            futures = [writer.submit([event(3 * n + k) for k in range(3)]) for n in range(4)]
            futures.append(writer.submit([event(100 + k) for k in range(9)]))
            await asyncio.gather(*futures)
            return writer.syncs

    assert net.run(main()) == 5


def test_closing_writes_what_was_handed_over() -> None:
    disk = VirtualDisk(sync_seconds=SYNC)
    net = Network(seed=1)

    async def main() -> None:
        writer = GroupCommit(store_on(disk))
        future = writer.submit([event(1)])
        await writer.close()
        assert future.done()
        with pytest.raises(ClosedError):
            writer.submit([event(2)])

    net.run(main())
    disk.crash()
    assert store_on(disk).count("/soccer") == 1


def test_on_a_real_disk_many_callers_share_few_syncs(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        store = open_store(f"sqlite:///{tmp_path}/events.db")
        async with GroupCommit(store) as writer:
            commits = (writer.commit([event(number)]) for number in range(1, 501))
            await asyncio.gather(*commits)
        count = store.count("/soccer")
        store.close()
        return count, writer.syncs

    count, syncs = asyncio.run(main())
    assert count == 500
    assert syncs < 50


class RaisingStore(AppendFileStore):
    """Raises what no store should."""

    def write(self, changes: Sequence[Change]) -> None:
        raise OverflowError("too large to convert")


def test_whatever_a_store_raises_is_a_failure_that_everybody_hears_of() -> None:
    async def main() -> None:
        async with GroupCommit(RaisingStore(VirtualDisk(), "/archive")) as writer:
            both = [writer.submit([event(number)]) for number in (1, 2)]
            for one in both:
                with pytest.raises(StoreError, match="too large"):
                    await one
            with pytest.raises(StoreError, match="too large"):
                writer.submit([event(3)])

    Network(seed=1).run(main())
