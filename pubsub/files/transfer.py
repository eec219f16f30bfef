"""A file on its way, as its sender or receiver sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pubsub.files.errors import FileError
from pubsub.files.manifest import Manifest
from pubsub.files.piece_file import PieceFile
from pubsub.files.protocol.exchange import Exchange


class Transfer:
    """Figures to show, and something to wait for."""

    def __init__(self, manifest: Manifest, file: PieceFile) -> None:
        self.manifest = manifest
        self.file = file
        self.exchange: Exchange | None = None
        """None while the file is read to see what is there of it."""
        self.path: Path | None = None
        """Where the file is once it has arrived and its checksum was right."""
        self.archived_pieces = 0
        """Pieces that are safe at an archive, from the first on."""
        self._changed = asyncio.Event()
        self._failure: FileError | None = None

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def size(self) -> int:
        return self.manifest.size

    @property
    def done(self) -> int:
        """Bytes that are here, to a piece."""
        if self.exchange is None:
            return 0
        return min(self.exchange.pieces.count * self.manifest.piece_size, self.size)

    @property
    def archived(self) -> int:
        """Bytes that are safe at an archive."""
        return min(self.archived_pieces * self.manifest.piece_size, self.size)

    @property
    def given(self) -> int:
        """Bytes sent to others."""
        return 0 if self.exchange is None else self.exchange.given

    @property
    def finished_peers(self) -> int:
        """Others that have all of it."""
        return 0 if self.exchange is None else self.exchange.finished_peers

    @property
    def waiting_peers(self) -> int:
        """Others that are getting it."""
        return 0 if self.exchange is None else self.exchange.waiting_peers

    def changed(self) -> None:
        self._changed.set()

    def fail(self, error: FileError) -> None:
        """The disk has failed: nothing more can be had or given."""
        self._failure = error
        self._changed.set()

    def check(self) -> None:
        """Raise what the disk has failed with, if it has."""
        if self._failure is not None:
            raise self._failure

    async def change(self, within: float) -> None:
        """Wait until something has changed, at most so many seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            pass
