"""A node for threads: `connect` and `node.threadsafe`, over real UDP on the loopback interface."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from overlay.errors import ClosedError, NetworkError, UsageError
from pubsub import Node, connect

DOCS = Path(__file__).parents[2] / "docs" / "node.md"


def test_a_script_publishes_and_gets_the_last_value_and_what_follows() -> None:
    with connect() as one, connect(str(one.address)) as two:
        with one.subscribe("/soccer") as mine:
            one.publish("/soccer/italy", "1-0", wait="acked")
            event = mine.next(timeout=20)
            assert event is not None
            assert event.data == "1-0"
            with two.subscribe("/soccer", last=True) as events:
                one.publish_many("/soccer/italy", ["2-0", "3-0"], wait="acked")
                got = [event.data for _, event in zip(range(3), events, strict=False)]
                assert got == ["1-0", "2-0", "3-0"]
                assert events.next(timeout=0.01) is None
        assert two.status()["id"] == two.id.hex()


def test_many_threads_publish_at_the_same_time_and_nothing_is_lost() -> None:
    with connect() as one, connect(str(one.address)) as two, two.subscribe("/n") as events:

        def publish(first: int) -> None:
            for number in range(first, first + 50):
                one.publish("/n", number)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(publish, range(0, 400, 50)))
        got = {event.data for _, event in zip(range(400), events, strict=False)}
        assert got == set(range(400))


def test_a_thread_that_waits_for_events_ends_with_the_node() -> None:
    network = connect()
    entered = threading.Event()

    def read() -> list[object]:
        with network.subscribe("/quiet") as events:
            entered.set()
            return list(events)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        assert entered.wait(20)
        network.close()
        network.close()
        assert reading.result(timeout=20) == []
    with pytest.raises(ClosedError):
        network.publish("/quiet", 1)
    with pytest.raises(ClosedError, match="the node was closed"):
        print(network.address)
    assert not [one for one in threading.enumerate() if one.name == "camcast"]


def test_mistakes_are_told_in_a_sentence() -> None:
    with pytest.raises(NetworkError, match="answered within"):
        connect("127.0.0.1:9", join_timeout=0.2)
    with pytest.raises(UsageError, match="given twice"):
        connect("127.0.0.1:9", bootstrap=["127.0.0.1:9"])
    assert not [one for one in threading.enumerate() if one.name == "camcast"]

    async def on_its_own_loop() -> None:
        async with Node() as node:
            with pytest.raises(UsageError, match="await the node's own methods"):
                node.threadsafe.publish("/soccer", 1)
            other = await asyncio.to_thread(node.threadsafe.request, "/quotes", timeout=0.1)
            assert other is None

    with pytest.raises(NetworkError, match="nobody that serves"):
        asyncio.run(on_its_own_loop())


def test_other_threads_use_the_node_of_a_program_with_a_loop() -> None:
    async def main() -> None:
        async with Node() as node, node.subscribe("/work") as events:
            await asyncio.to_thread(node.threadsafe.publish, "/work", "done")
            async with asyncio.timeout(20):
                assert (await anext(events)).data == "done"

    asyncio.run(main())


def test_a_thread_that_waits_is_told_when_the_event_loop_ends() -> None:
    async def main() -> Future[Any]:
        async with Node() as node:
            begun = asyncio.Event()

            async def wait_for_ever() -> None:
                begun.set()
                await asyncio.Event().wait()

            waiting = threads.submit(node.threadsafe._wait, wait_for_ever())
            await begun.wait()
        return waiting

    with ThreadPoolExecutor(1) as threads:
        waiting = asyncio.run(main())
        with pytest.raises(ClosedError, match="event loop ended"):
            waiting.result(timeout=20)


def test_the_program_in_the_documentation_runs_and_ends_without_being_closed() -> None:
    program = next(
        text
        for text in re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
        if "connect(" in text
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "/soccer/italy {'score': '1-0'}" in done.stdout
    open_end = "from pubsub import connect\nnetwork = connect()\nprint(network.address)"
    subprocess.run([sys.executable, "-c", open_end], check=True, timeout=60, capture_output=True)


def test_another_event_loop_is_told_to_use_threadsafe() -> None:
    """What was published there left a half-made community behind, with which the node could not be closed."""

    async def use(node: Node) -> None:
        with pytest.raises(UsageError, match=r"another event loop: use node\.threadsafe"):
            await node.publish("/a")
        with pytest.raises(UsageError, match=r"another event loop: use node\.threadsafe"):
            await node.subscribe("/a").__aenter__()
        with pytest.raises(UsageError, match=r"another event loop: use node\.threadsafe"):
            await node.request("/a")
        node.threadsafe.publish("/a")

    async def main() -> None:
        async with Node() as node:
            await asyncio.to_thread(lambda: asyncio.run(use(node)))

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not() -> None:
    """In a process of its own: one that has threads, as this one, should not fork."""
    program = """
import os
from pubsub import connect
from overlay.errors import ClosedError

with connect() as network:
    child = os.fork()
    if child == 0:
        try:
            network.publish("/a")
        except ClosedError as error:
            print(error, flush=True)
        network.close()
        os._exit(0)  # as multiprocessing does
    else:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        network.publish("/a")
        print("goes on")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "runs in the process that this one was forked from\n" in ended.stdout
    assert "goes on\n" in ended.stdout
