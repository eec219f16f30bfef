"""The number of the last batch that was synced, written beside the log and never synced itself.

It is written after the sync of the batch. So it may be behind the truth and is never ahead of it: when it
names the last batch of the log, that batch was whole on the disk once.
"""

from __future__ import annotations

import struct
from zlib import crc32

from pubsub.archive.store.filesystem import FileSystem

_NAME = "synced"
_MARK = struct.Struct(">QI")
_MOST = 4096
"""Bytes after which the file begins again."""


class SyncMark:
    """The last readable mark counts."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._file = files.open(f"{directory}/{_NAME}")
        self._size = self._file.size()
        self.batch = max(self._marks(), default=0)

    def put(self, batch: int) -> None:
        if self._size >= _MOST:
            self._file.truncate(0)
            self._size = 0
        number = batch.to_bytes(8, "big")
        self._file.append(number + crc32(number).to_bytes(4, "big"))
        self._size += _MARK.size

    def close(self) -> None:
        self._file.close()

    def _marks(self) -> list[int]:
        data = self._file.read(0, self._size - self._size % _MARK.size)
        return [
            batch
            for batch, check in _MARK.iter_unpack(data)
            if crc32(batch.to_bytes(8, "big")) == check
        ]
