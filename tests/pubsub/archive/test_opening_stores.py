"""A store reads all of itself when it is opened: a thread waits for that, and not the event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from pubsub import Archive
from pubsub.archive import archive as module
from pubsub.archive.store import Store
from pubsub.archive.store.opening import open_store


def test_the_event_loop_does_not_wait_for_a_store_that_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def opening(address: str) -> Store:
        threads.append(threading.current_thread())
        return open_store(address)

    monkeypatch.setattr(module, "open_store", opening)

    async def main() -> None:
        async with Archive(["/soccer"], f"sqlite:///{tmp_path}/events.db", listen="127.0.0.1:0"):
            pass

    asyncio.run(main())
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_a_store_that_is_open_after_all_is_closed_where_nobody_waits_for_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def opening(address: str) -> Store:
        begun.set()
        go_on.wait()
        return open_store(address)

    monkeypatch.setattr(module, "open_store", opening)
    address = f"sqlite:///{tmp_path}/events.db"

    async def main() -> None:
        archive = Archive(["/soccer"], address, listen="127.0.0.1:0")
        entering = asyncio.ensure_future(archive.__aenter__())
        while not begun.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        go_on.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)
        open_store(address).close()  # nobody else has it

    asyncio.run(main())
