"""`close()` is complete and can be repeated, though it was cancelled once, and though a store failed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from overlay.errors import CamcastError, ClosedError
from overlay.overlay import Overlay
from overlay.virtual import Network
from overlay.virtual.disk import VirtualDisk
from pubsub import Archive, Group, Node
from pubsub.archive.errors import ArchiveError
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.distributors import Distributor, Publisher, Subscriber

HERE = "127.0.0.2:4000"

KINDS: dict[str, Callable[[], Any]] = {
    "node": lambda: Node(listen=HERE),
    "overlay": lambda: Overlay(HERE),
    "archive": lambda: Archive(["/t"], store="memory:", listen=HERE),
    "distributor": lambda: Distributor(["s"], listen=HERE),
    "group": lambda: Group([HERE], 0, "beb"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_close_that_is_cancelled_leaves_no_task_and_no_socket(kind: str, turns: int) -> None:
    net = Network(seed=1)
    left: list[str] = []

    async def program() -> None:
        thing = KINDS[kind]()
        await thing.__aenter__()
        await asyncio.sleep(3)
        closing = asyncio.ensure_future(thing.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(2):  # a time-out, and then Ctrl-C
            closing.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([closing])
        await thing.close()
        await thing.close()
        me: Any = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not me and getattr(task, "incarnation", None) is me.incarnation:
                left.append(str(task.get_coro()))
        async with Node(listen=HERE):
            pass

    async def main() -> None:
        await net.spawn("127.0.0.2", program())

    net.run(main(), limit=600)
    assert not left


async def _follow(node: Node) -> None:
    async with node.subscribe("/nobody", durable="name") as events:
        await anext(events)


async def _listen(node: Node) -> None:
    async with Subscriber(node=node) as client, client.subscribe("s") as messages:
        await anext(messages)


async def _tell(node: Node) -> None:
    async with Publisher(node=node) as client:
        await client.publish("s", 1)


WAITING: dict[str, Callable[[Node], Any]] = {
    "durable publish": lambda node: node.publish("/nobody", 1, durable=True),
    "durable subscribe": _follow,
    "light subscribe": _listen,
    "light publish": _tell,
    "request": lambda node: node.request("/nobody", 1, timeout=30),
}


@pytest.mark.parametrize("what", WAITING)
def test_who_waits_for_somebody_when_the_node_is_closed_is_told_at_once(what: str) -> None:
    async def main() -> None:
        async with Node(listen=HERE) as node:
            waiting = asyncio.create_task(WAITING[what](node))
            await asyncio.sleep(2)
            closing = asyncio.create_task(node.close())
            with pytest.raises(ClosedError, match="closed"):
                await asyncio.wait_for(waiting, 5)
            await closing

    Network(seed=1).run(main(), limit=600)


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_light_subscription_ends_with_the_node_that_it_is_on(is_leaving: bool) -> None:
    net = Network(seed=1)

    async def main() -> None:
        node = Node(listen="127.0.0.3:4000", bootstrap=[HERE])
        net.spawn("127.0.0.2", distributor())
        await asyncio.sleep(3)
        async with node, Subscriber(node=node) as client:
            messages = client.subscribe("s")
            await messages.__aenter__()
            if is_leaving:  # and nobody answers
                net.crash("127.0.0.2")
                waiting: asyncio.Task[Any] = asyncio.create_task(messages.close())
            else:
                waiting = asyncio.create_task(anext(messages, None))
            await asyncio.sleep(0.1)
            await node.close()
            assert not await asyncio.wait_for(waiting, 1)

    async def distributor() -> None:
        async with Distributor(["s"], listen=HERE):
            await asyncio.sleep(1e6)

    net.run(main(), limit=600)


@pytest.mark.parametrize(
    "operation", [2, *(pytest.param(one, marks=pytest.mark.sweep) for one in (1, 3, 7))]
)
def test_an_archive_whose_store_fails_ends_wholly_and_can_be_started_again(operation: int) -> None:
    net = Network(seed=operation)

    async def other() -> None:
        async with Archive(
            ["/t"], store="memory:", listen="127.0.0.3:4000", bootstrap=["127.0.0.2:4000"]
        ):
            await asyncio.sleep(1e6)

    async def client() -> None:
        node = Node(listen="127.0.0.4:4000", bootstrap=["127.0.0.2:4000"])
        async with node, node.subscribe("/t", durable="s", since="beginning") as events:

            async def read() -> None:
                async for _ in events:
                    pass

            reading = asyncio.create_task(read())
            while not reading.done():
                with contextlib.suppress(CamcastError):
                    await node.publish("/t", 1, durable=True, deadline=3)

    async def main() -> None:
        disk = VirtualDisk(seed=1, sync_seconds=0.01)
        store = AppendFileStore(disk, "/a")
        archive = Archive(["/t"], store=store, listen=HERE)
        async with archive:
            net.spawn("127.0.0.3", other())
            net.spawn("127.0.0.4", client())
            await asyncio.sleep(20)
            assert archive.node.metrics.as_dict()["archive_failed"] == 0
            disk.cut_power_at(disk.operations + operation)
            with pytest.raises(ArchiveError, match="its store failed"):
                await archive.failed()
            assert archive.node.metrics.as_dict()["archive_failed"] == 1
            assert "power" in archive.status()["/t"]["failure"]
        store.close()
        disk.crash()
        async with Archive(["/t"], store=AppendFileStore(disk, "/a"), listen=HERE):
            pass

    net.run(main(), limit=600)
