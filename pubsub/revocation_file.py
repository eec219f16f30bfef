"""Revocations on disk: a node that restarts still knows what was taken back, before anybody tells it again.

The file has one revocation a line, in hexadecimal digits. It is written as a whole, beside the old one, which
it then replaces, within a second of a change and when the node closes. A line that does not count is passed
over, whether it is damaged, of another authority, or of a right that has ended; it is gone with the next
writing. A disk that fails is logged and counted, and tried again with the next revocation.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from overlay.errors import UsageError, why
from overlay.identity import replace_file
from overlay.metrics import Metrics
from pubsub.reliable.tasks import Tasks
from pubsub.rights import Authority

PAUSE_SECONDS = 1.0
"""Between two writings at least: who may grant its right on can make revocations without end."""

_log = logging.getLogger(__name__)


class RevocationFile:
    """Keeps what an authority knows to be taken back; `open` comes first."""

    def __init__(self, path: Path, authority: Authority, metrics: Metrics) -> None:
        self._path = path
        self._authority = authority
        self._tasks = Tasks("revocations", metrics)
        self._written = b""
        """A digest of what was written last, or could not be."""
        self._thread: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Take note of what is in the file; `UsageError` when it cannot be read and written."""
        try:
            await asyncio.to_thread(self._read)
            await self._write()
        except OSError as error:
            raise UsageError(
                f"revocations: {self._path} cannot be read and written: {why(error)}"
            ) from None
        self._tasks.repeat("write", PAUSE_SECONDS, self._write)

    async def close(self) -> None:
        """Everything that was taken back until now is in the file, if the disk works."""
        await self._tasks.close()
        if self._thread is not None:
            await asyncio.wait([self._thread])  # a cancelled turn leaves its thread writing
        try:
            await self._write()
        except OSError as error:
            _log.error("revocations: %s cannot be written: %s", self._path, error)

    def _read(self) -> None:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().split():
            try:
                self._authority.take_back(bytes.fromhex(line.decode("ascii")))
            except ValueError:
                continue

    async def _write(self) -> None:
        """Write what is known, if it has changed."""
        digest = self._authority.digest_revocations()
        if digest == self._written:
            return
        self._written = digest
        content = b"".join(one.hex().encode() + b"\n" for one in self._authority.revocations)
        writing = asyncio.to_thread(replace_file, self._path, content)
        self._thread = asyncio.ensure_future(writing)
        await asyncio.shield(self._thread)
