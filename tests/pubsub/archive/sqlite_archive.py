"""Archives of a simulation on real SQLite files."""

from __future__ import annotations

from pathlib import Path

from pubsub.archive.store.sqlite import SqliteStore
from tests.pubsub.archive.harness import ArchiveActor


class SqliteArchive(ArchiveActor):
    """An archive on a file in `directory`, to be set on the class; a crash loses nothing that was synced."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / f"{self.replica.hex()}.db"

    def open_store(self) -> SqliteStore:
        return SqliteStore(self.path)

    def crash(self) -> None:
        super().crash()
        self.store.close()
