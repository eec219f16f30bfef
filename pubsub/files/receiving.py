"""The files of one topic as they arrive in one directory."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.contact import AddressError, Contact
from overlay.errors import UsageError
from pubsub.files.archived import fragment_in
from pubsub.files.disk import Arrivals, PieceFile
from pubsub.files.exchange import Piece, PieceExchange, PieceHashes
from pubsub.files.manifest import FileError, HashList, Manifest
from pubsub.files.storage import FileStorage, in_thread

if TYPE_CHECKING:
    from pubsub.files.sharing import FileSharing


LOOK_SECONDS = 10.0
"""How long an arriving file may stand still before it is looked at again."""


class Transfer:
    """A file on its way, as its sender or receiver sees it: figures to show, and a change to wait for."""

    def __init__(self, manifest: Manifest, file: PieceFile) -> None:
        self.manifest = manifest
        self.file = file
        self.exchange: PieceExchange | None = None
        """None while the file is read to see what is there of it."""
        self.storage: FileStorage
        """What the exchange reads and writes; there when the exchange is."""
        self.path: Path | None = None
        """Where the file is once it has arrived and its checksum was right."""
        self.archived_pieces = 0
        """Pieces that are safe at an archive, from the first on."""
        self._changed = asyncio.Event()
        self._failure: Exception | None = None

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

    def fail(self, error: Exception) -> None:
        """The disk has failed: nothing more can be had or given."""
        self._failure = error
        self._changed.set()

    def check(self) -> None:
        """Raise what the disk has failed with, if it has."""
        if self._failure is not None:
            raise self._failure

    async def change(self, within: float) -> None:
        """Wait until something has changed, at most `within` seconds."""
        self._changed.clear()
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            pass


class Receiving:
    """Hears of files, has them fetched, and gives them their names.

    What an event brought is on stable storage before the next event is asked for: a durable subscription's
    archive need not bring it again."""

    def __init__(self, sharing: FileSharing, arrivals: Arrivals) -> None:
        self._sharing = sharing
        self._arrivals = arrivals
        self.arrived: asyncio.Queue[Path | BaseException | None] = asyncio.Queue()
        """Files that are there, or what went wrong; None when nothing more comes."""
        self._rejected: dict[bytes, None] = {}
        """Files whose announcements were wrong: each arrived in full before that was seen."""

    async def resume(self) -> None:
        """Go on with what had begun to arrive; `FileError` when there is no room for it."""
        for manifest in await in_thread(self._arrivals.unfinished):
            await self._expect(manifest, None)

    async def listen(self, events: Any) -> None:
        """Take what the topic's events say and bring of files, until there are no more. Then say so, or why,
        behind what has arrived."""
        end: Exception | None = None
        try:
            async for event in events:
                found = Manifest.from_data(event.data, event.topic)
                fragment = None if found is not None else fragment_in(event.data)
                if found is not None:
                    await self._announced(*found)
                elif fragment is not None:
                    await self._take(fragment)
        except Exception as error:
            end = error
        finally:
            self.arrived.put_nowait(end)

    async def _announced(self, manifest: Manifest, holder: bytes) -> None:
        try:
            contact = Contact.unpack(holder)
        except (AddressError, UsageError):
            self._sharing.drop("malformed_announcement")
            return
        await self._expect(manifest, contact)

    async def _expect(self, manifest: Manifest, holder: Contact | None) -> None:
        if self._sharing.transfer(manifest.id) is None and manifest.id not in self._rejected:
            file, hashes, is_whole = await in_thread(partial(self._place, manifest))
            if self._sharing.transfer(manifest.id) is None:
                transfer = self._sharing.begin(manifest, file)
                transfer.path = file.path if is_whole else None
                self._fetch(transfer, hashes, holder)
                return
        known = self._sharing.transfer(manifest.id)
        if known is not None and known.exchange is not None and holder is not None:
            known.exchange.meet(holder)

    def _place(self, manifest: Manifest) -> tuple[PieceFile, HashList, bool]:
        """In a thread: where a file is or will be, the checksums that are known, and whether it is whole."""
        had = self._arrivals.finished(manifest)
        if had is not None:
            return *had, True
        self._arrivals.check_room(manifest)
        return *self._arrivals.open(manifest), False

    def _fetch(self, transfer: Transfer, hashes: HashList, holder: Contact | None) -> None:
        fetching = self._get(transfer, hashes, holder)
        self._sharing.tasks.start("file", fetching, vital=False).add_done_callback(self._fetched)

    def _fetched(self, fetching: asyncio.Task[None]) -> None:
        """Say so if it died: who waits for the file would wait for ever."""
        error = None if fetching.cancelled() else fetching.exception()
        if error is not None:
            self.arrived.put_nowait(error)

    async def _take(self, fragment: Piece | PieceHashes) -> None:
        """Take a piece that an event brought, if it is of a file that arrives here."""
        transfer = self._sharing.transfer(fragment.file)
        if transfer is None or transfer.path is not None:
            return
        while transfer.exchange is None:
            await transfer.change(LOOK_SECONDS)
            transfer.check()
        transfer.exchange.take(fragment)
        if isinstance(fragment, Piece):
            await transfer.storage.run(transfer.file.sync)
        else:
            await self._keep(transfer, transfer.exchange.hashes)

    async def _keep(self, transfer: Transfer, hashes: HashList) -> None:
        await transfer.storage.run(partial(self._arrivals.keep, transfer.manifest, hashes))

    async def _get(self, transfer: Transfer, hashes: HashList, holder: Contact | None) -> None:
        """Fetch a file, and give it its name; one that was there already is given away only."""
        try:
            pieces = None
            if hashes.is_complete:
                pieces = await in_thread(partial(transfer.file.scan, hashes))
            exchange = self._sharing.share(transfer, hashes, pieces)
            if holder is not None:
                exchange.meet(holder)
            kept = hashes.is_complete
            while not exchange.is_complete:
                transfer.check()
                if hashes.is_complete and not kept:
                    kept = True
                    await self._keep(transfer, hashes)
                else:
                    await transfer.change(LOOK_SECONDS)
            if transfer.path is None:
                await self._finish(transfer, hashes)
            self._sharing.retire()
        except FileError as error:
            transfer.fail(error)
            self.arrived.put_nowait(error)

    async def _finish(self, transfer: Transfer, hashes: HashList) -> None:
        run = transfer.storage.run
        if await run(transfer.file.has_digest):
            path = await run(partial(self._arrivals.finish, transfer.manifest, hashes))
            transfer.path = transfer.file.path = path
            self.arrived.put_nowait(path)
            return
        scanned = await run(partial(transfer.file.scan, hashes))
        if not scanned.is_full:
            raise FileError(
                f"{transfer.name} arrived, and its checksum is wrong: the disk changed what was written"
            )
        # Every piece is what its sender said: it is the announcement that contradicts itself.
        self._sharing.drop("wrong_announcement")
        self._rejected[transfer.manifest.id] = None
        self._sharing.end(transfer)
        await in_thread(partial(self._arrivals.remove, transfer.manifest))
