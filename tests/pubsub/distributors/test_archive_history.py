"""A distributor's history in an archive's store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from overlay.virtual.disk import VirtualDisk
from pubsub.archive.errors import ArchiveError
from pubsub.archive.store import GroupCommit, Retention, Store
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.archive.store.opening import open_store
from pubsub.distributors import (
    ArchiveHistory,
    Distributor,
    DistributorConfig,
    Publisher,
    Subscriber,
)
from pubsub.distributors.messages import ServiceBlock
from pubsub.reliable.runs import source_of
from tests.pubsub.distributors.test_on_the_virtual_network import Playground, play, received

SOURCE = b"s" * 24


def publication(number: int) -> ServiceBlock:
    return ServiceBlock("ticker", SOURCE, number, (b"data %d" % number,))


async def read(history: ArchiveHistory, first: int, last: int) -> list[int]:
    answer: asyncio.Future[Sequence[bytes]] = asyncio.get_running_loop().create_future()
    history.read("ticker", SOURCE, first, last, answer.set_result)
    found = await answer
    numbers = list(range(first, first + len(found)))
    assert [(data,) for data in found] == [publication(number).payloads for number in numbers]
    return numbers


@pytest.mark.parametrize("address", ["sqlite:///{}", "file:///{}", "memory:"])
def test_what_was_recorded_is_found_as_far_as_it_is_consecutive(
    address: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with ArchiveHistory(open_store(address.format(tmp_path / "store"))) as history:
            for number in (1, 2, 3, 5):
                history.record(publication(number))
            await history._commit.close()
            assert await read(history, 1, 10) == [1, 2, 3]
            assert await read(history, 5, 5) == [5]
            assert await read(history, 4, 5) == []

    asyncio.run(main())


def test_it_survives_and_goes_on_numbering(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'services.db'}"

    async def session(numbers: range, expected: list[int]) -> None:
        async with ArchiveHistory(open_store(address)) as history:
            for number in numbers:
                history.record(publication(number))
            await history._commit.close()
            assert await read(history, 1, 100) == expected

    asyncio.run(session(range(1, 4), [1, 2, 3]))
    asyncio.run(session(range(4, 7), [1, 2, 3, 4, 5, 6]))


def test_a_subscriber_that_was_away_too_long_gets_the_rest_from_the_archive(seed: int) -> None:
    """Nothing is kept in memory; yet after a partition that outlasts all patience nothing is missing."""
    config = DistributorConfig(recent_bytes=0, subscriber_patience=2.0, no_gap_patience=3.0)

    async def main(ground: Playground) -> None:
        history = ArchiveHistory(open_store("memory:"), Retention(max_count=10_000))
        await ground.stack.enter_async_context(history)
        distributor = await ground.enter(
            Distributor, services=["ticker"], history=history, config=config
        )
        await distributor.ready()
        publisher = await ground.enter(Publisher)
        subscriber = await ground.enter(Subscriber)
        async with subscriber.subscribe("ticker", semantics="no_gap") as messages:
            await publisher.publish("ticker", 0)
            assert [one.data for one in await received(messages, 1)] == [0]
            here, there = subscriber.contact.host, distributor.address.host
            ground.network.partition([here], [there])
            await asyncio.sleep(10)
            for number in range(1, 30):
                await publisher.publish("ticker", number, wait="safe")
            await asyncio.sleep(10)
            assert distributor.status()["services"]["ticker"]["held_bytes"] == 0
            ground.network.heal()
            found = await received(messages, 29, within=60)
            assert [one.data for one in found] == list(range(1, 30))
            assert messages.missing == 0

    play(seed, main)


def test_sources_are_told_apart() -> None:
    async def main() -> None:
        async with ArchiveHistory(open_store("memory:")) as history:
            other = source_of(SOURCE[:20], b"the run2")  # type: ignore[arg-type]
            history.record(publication(1))
            history.record(ServiceBlock("ticker", other, 1, (b"other",)))
            history.record(ServiceBlock("else", SOURCE, 1, (b"else",)))
            await history._commit.close()
            assert await read(history, 1, 9) == [1]

    asyncio.run(main())


def test_a_history_whose_store_fails_says_so_everywhere_and_the_distributor_serves_on(
    seed: int,
) -> None:
    disk = VirtualDisk(seed)

    async def main(ground: Playground) -> None:
        store = AppendFileStore(disk, "/history")
        history = await ground.stack.enter_async_context(ArchiveHistory(store))
        failed = asyncio.create_task(history.failed())
        distributor = await ground.enter(Distributor, services=["ticker"], history=history)
        await distributor.ready()
        publisher, subscriber = await ground.enter(Publisher), await ground.enter(Subscriber)
        await publisher.publish("ticker", 0)
        await asyncio.sleep(1)
        assert distributor.status()["history_failure"] == ""
        assert distributor.metrics.as_dict()["distributor_history_failed"] == 0
        disk.cut_power_at(disk.operations)
        async with subscriber.subscribe("ticker", semantics="no_gap") as messages:
            for number in range(1, 4):
                await publisher.publish("ticker", number)
            assert [one.data for one in await received(messages, 3)] == [1, 2, 3]
        await publisher.create("another")
        await publisher.publish("another", "a service that the history does not know yet")
        assert "power" in distributor.status()["history_failure"]
        assert distributor.metrics.as_dict()["distributor_history_failed"] == 1
        with pytest.raises(ArchiveError, match="its store failed"):
            await failed

    play(seed, main)


def test_a_history_does_all_its_reading_off_the_event_loop(tmp_path: Path) -> None:
    here = threading.get_ident()
    asked: list[bool] = []

    class Watched:
        """A store that notes on which thread it is read once it is open."""

        def __init__(self, store: Store) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            if name in ("by_catenation", "holdings", "count", "size"):
                asked.append(threading.get_ident() == here)
            return getattr(self._store, name)

    async def main() -> None:
        store = open_store(f"sqlite:///{tmp_path / 'services.db'}")
        watched: Any = Watched(store)
        async with ArchiveHistory(watched, Retention(max_count=2)) as history:
            for number in range(1, 6):
                history.record(publication(number))
            await history._commit.close()
            assert await read(history, 1, 10) == [1, 2, 3, 4, 5]
            history._commit = GroupCommit(watched)
            await history._forget_old()
            await history._commit.close()
            assert await read(history, 4, 10) == [4, 5]
            assert await read(history, 1, 10) == []

    asyncio.run(main())
    assert asked
    assert not any(asked)
