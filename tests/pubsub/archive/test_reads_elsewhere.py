"""An archive's event loop waits for no disk: its store is read in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from overlay.loops import run
from pubsub import Archive, Node
from pubsub.archive.protocol.inventory import Inventory
from pubsub.archive.store import Retention, open_store

READS = ("events", "read", "sequences", "by_catenation", "firsts_above", "first_beyond", "since")
READS += ("holdings", "damaged_ids")


class Watched:
    """A store that notes who reads it where."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.here: set[str] = set()
        self.elsewhere: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            on_loop = threading.current_thread() is threading.main_thread()
            (self.here if on_loop else self.elsewhere).add(name)
        return getattr(self._store, name)


@pytest.mark.parametrize("url", ["sqlite:////{}/events.db", "file:///{}/log"])
def test_no_read_of_the_store_is_done_on_the_event_loop(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pubsub.archive.archive.RETENTION_SECONDS", 0.05)
    monkeypatch.setattr(Inventory, "recent", lambda self, cursor, limit: None)  # all is read
    store = Watched(open_store(url.format(tmp_path)))

    async def main() -> list[int]:
        async with (
            Archive(["/t"], store=store, retention=Retention(max_count=5)) as archive,  # type: ignore[arg-type]
            Archive(["/t"], store="memory:", bootstrap=[str(archive.node.address)]) as other,
            Node(bootstrap=[str(archive.node.address)]) as node,
        ):
            await other.ready("/t")
            for number in range(10):
                await node.publish("/t", number, durable=True, copies=2)
            taken = []
            await other.close()  # the subscriber is to come to the one that is watched
            async with node.subscribe("/t", durable="name", since="beginning") as events:
                async for event in events:
                    taken.append(event.data)
                    if event.data == 9:
                        break
            await asyncio.sleep(0.3)
            return taken

    assert run(main())[-1] == 9
    assert not store.here
    assert {"events", "holdings"} <= store.elsewhere
