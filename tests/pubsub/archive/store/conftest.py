"""Places where stores of every kind can be opened, closed and opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from overlay.virtual.disk import VirtualDisk
from pubsub.archive.store import Store, open_store
from pubsub.archive.store.append_files import AppendFileStore
from tests.pubsub.archive.store.postgresql_server import PostgresqlServer

Opener = Callable[[], Store]
SMALL_SEGMENT = 3000


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "files", "virtual disk", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens a store, the same one at each call; the one before must have been closed."""
    opened: list[Store] = []
    disk = VirtualDisk()
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        address = server.new_address()
    else:
        address = f"sqlite:///{tmp_path}/events.db"

    def open_it() -> Store:
        if request.param == "files":
            from pubsub.archive.store.filesystem import RealFileSystem

            store: Store = AppendFileStore(
                RealFileSystem(), str(tmp_path / "log"), segment_bytes=SMALL_SEGMENT
            )
        elif request.param == "virtual disk":
            store = AppendFileStore(disk, "/archive", segment_bytes=SMALL_SEGMENT)
        else:
            store = open_store(address)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()
