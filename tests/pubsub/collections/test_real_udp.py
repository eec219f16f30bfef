"""Collections over real UDP: a few nodes on one event loop, and two processes of which one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import textwrap
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pubsub import Node
from pubsub.collections import DASortedBag, DAStrongBag
from tests.pubsub.collections.nodes import into

ROOT = Path(__file__).parents[3]

WITHIN = 60.0
"""Seconds, far more than it takes, within which something must happen."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 - what happens is seen from outside
            await asyncio.sleep(0.02)


async def nodes(stack: AsyncExitStack, count: int) -> list[Node]:
    started: list[Node] = []
    for _ in range(count):
        bootstrap = [str(node.address) for node in started[:1]]
        node = Node(listen="127.0.0.1:0", bootstrap=bootstrap)
        started.append(await stack.enter_async_context(node))
    return started


def test_a_few_nodes_agree_on_the_order_and_share_the_work() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            bags = [
                await stack.enter_async_context(node.collection(DASortedBag, "/EPFL/DSC"))
                for node in await nodes(stack, 3)
            ]
            shares: list[list[Any]] = [[], [], []]
            for bag, share in zip(bags, shares, strict=True):
                await bag.remove(into(share))
            takers = bags[0]._hub
            assert takers is not None
            await until(lambda: len(takers._sharing.assigner.takers) == 3)
            for number in range(10):
                for place, bag in enumerate(bags):
                    await bag.add([place, number])
            await until(lambda: all(len(bag) == 30 for bag in bags))
            assert list(bags[0]) == list(bags[1]) == list(bags[2])
            await until(lambda: sum(map(len, shares)) == 30)
            assert sorted(data for share in shares for data in share) == sorted(bags[0])

    asyncio.run(main())


WORKER = """
    import asyncio, sys
    from pubsub import Node
    from pubsub.collections import DAStrongBag

    async def work(element):
        print("begun", element.data, flush=True)
        await asyncio.sleep(1000)

    async def main():
        async with Node(listen="127.0.0.1:0", bootstrap=[sys.argv[1]]) as node:
            async with node.collection(DAStrongBag, "/tasks", keep=0) as tasks:
                await tasks.remove(work)
                print("ready", flush=True)
                await asyncio.sleep(1000)

    asyncio.run(main())
"""


@pytest.mark.sweep
def test_the_work_of_a_process_that_is_killed_goes_to_another() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            publisher, other = [
                await stack.enter_async_context(node.collection(DAStrongBag, "/tasks", keep=0))
                for node in await nodes(stack, 2)
            ]
            address = str(publisher._collections.node.address)
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                textwrap.dedent(WORKER),
                address,
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                assert worker.stdout is not None
                assert await worker.stdout.readline() == b"ready\n"
                hub = publisher._hub
                assert hub is not None
                await until(lambda: len(hub._sharing.assigner.takers) == 1)
                await publisher.add("hard")
                assert await worker.stdout.readline() == b"begun hard\n"
                done: list[Any] = []
                await other.remove(into(done))
                worker.send_signal(signal.SIGKILL)
                await until(lambda: done == ["hard"])
            finally:
                with contextlib.suppress(ProcessLookupError):
                    worker.kill()
                await worker.wait()

    asyncio.run(main())
