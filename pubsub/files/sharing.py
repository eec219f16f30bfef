"""Files over a topic: send one to all subscribers, receive those that others send.

    async with FileSharing(node) as files:
        await files.send("match.mp4", "/videos", receivers=3)

    async with FileSharing(node) as files:
        async for path in files.receive("/videos", "downloads"):
            print(path)

A sender announces its file by an event of the topic, again and again while it sends. Whoever receives asks
the sender and the other receivers for pieces, and gives away those that it has. An interrupted receiver goes
on with what it had; an interrupted sender may begin anew, anywhere. A file gets its name when it is whole on
the disk and its SHA-256 is that of the announcement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from overlay.contact import AddressError, Contact
from overlay.errors import UsageError
from pubsub.files.arrivals import Arrivals
from pubsub.files.errors import FileError
from pubsub.files.manifest import Manifest
from pubsub.files.piece_file import PieceFile, describe_file
from pubsub.files.protocol.exchange import Exchange
from pubsub.files.protocol.hash_list import HashList
from pubsub.files.protocol.messages import Holds, Piece, PieceHashes, Wanted
from pubsub.files.protocol.piece_set import PieceSet
from pubsub.files.transfer import Transfer
from pubsub.node import Node

ANNOUNCE_SECONDS = 3.0
"""Between two announcements of a file that is being sent."""
SEARCH_SECONDS = 10.0
"""Between two searches for others that have pieces of a file."""
_MESSAGES = (Holds, Wanted, Piece, PieceHashes)


class FileSharing:
    """The files that one node sends and receives; it gives away what it has until it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runtime = node.attachment.runtime
        self._directory = node.attachment.directory
        self._transfers: dict[bytes, Transfer] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._drops = node.metrics.family(
            "file_messages_dropped", "reason", "Messages about files that were of no use"
        )

    async def __aenter__(self) -> Self:
        for kind in _MESSAGES:
            self._runtime.on(kind, self._receive)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for message_kind in _MESSAGES:
            self._runtime.off(message_kind)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transfer in self._transfers.values():
            if transfer.exchange is not None:
                transfer.exchange.stop()
                self._directory.withdraw(_holders_of(transfer.manifest))
            transfer.file.close()
        self._transfers.clear()

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """All files so far, in the order in which they began."""
        return tuple(self._transfers.values())

    # -- sending --

    async def send(
        self, path: str | Path, topic: str, *, receivers: int = 1, **publishing: Any
    ) -> Transfer:
        """Send a file to a topic's subscribers; returns when so many have all of it, and none is half done.

        `publishing` goes to `Node.publish`, with the announcement: `durable=True` lets an archive keep it."""
        if receivers < 1:
            raise UsageError(f"receivers={receivers} is no number of receivers, 1 or more")
        manifest, hashes = await asyncio.to_thread(describe_file, Path(path))
        transfer = self._transfers.get(manifest.id)
        if transfer is None:
            transfer = self._begin(manifest, PieceFile(Path(path), manifest))
            self._share(transfer, hashes, PieceSet.full(manifest.pieces))
        announcement = manifest.to_data(self._runtime.contact.packed())
        while transfer.finished_peers < receivers or transfer.waiting_peers:
            transfer.check()
            await self._node.publish(topic, announcement, **publishing)
            await self._until_finished(transfer, receivers)
        return transfer

    async def _until_finished(self, transfer: Transfer, receivers: int) -> None:
        """Return when the file has been sent, or after a while."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ANNOUNCE_SECONDS
        while transfer.finished_peers < receivers or transfer.waiting_peers:
            rest = until - loop.time()
            if rest <= 0:
                break
            await transfer.change(rest)

    # -- receiving --

    async def receive(
        self, topic: str, directory: str | Path, **subscribing: Any
    ) -> AsyncGenerator[Path, None]:
        """The files of a topic, each when it has arrived; unfinished ones of the directory go on at once.

        `subscribing` goes to `Node.subscribe`: with `durable="a name"` an archive keeps announcements."""
        arrivals = Arrivals(Path(directory))
        arrived: asyncio.Queue[Path | FileError] = asyncio.Queue()
        for manifest in arrivals.unfinished():
            self._expect(arrivals, manifest, None, arrived)
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(self._node.subscribe(topic, **subscribing))
            self._start(self._listen(events, arrivals, arrived))
            while True:
                one = await arrived.get()
                if isinstance(one, FileError):
                    raise one
                yield one

    async def _listen(
        self, events: Any, arrivals: Arrivals, arrived: asyncio.Queue[Path | FileError]
    ) -> None:
        async for event in events:
            found = Manifest.from_data(event.data)
            if found is None:
                continue
            manifest, holder = found
            try:
                contact = Contact.unpack(holder)
            except (AddressError, UsageError):
                self._drops.add("malformed_announcement")
                continue
            self._expect(arrivals, manifest, contact, arrived)

    def _expect(
        self,
        arrivals: Arrivals,
        manifest: Manifest,
        holder: Contact | None,
        arrived: asyncio.Queue[Path | FileError],
    ) -> None:
        transfer = self._transfers.get(manifest.id)
        if transfer is None:
            if manifest.size > arrivals.free_bytes():
                self._drops.add("no_space")
                return
            file, hashes = arrivals.open(manifest)
            transfer = self._begin(manifest, file)
            self._start(self._get(transfer, arrivals, hashes, holder, arrived))
        elif holder is not None and transfer.exchange is not None:
            transfer.exchange.meet(holder)

    async def _get(
        self,
        transfer: Transfer,
        arrivals: Arrivals,
        hashes: HashList,
        holder: Contact | None,
        arrived: asyncio.Queue[Path | FileError],
    ) -> None:
        """Fetch a file, and give it its name."""
        manifest = transfer.manifest
        try:
            pieces = PieceSet(manifest.pieces)
            if hashes.is_complete:
                pieces = await asyncio.to_thread(transfer.file.scan, hashes)
            exchange = self._share(transfer, hashes, pieces)
            if holder is not None:
                exchange.meet(holder)
            kept = hashes.is_complete
            while not exchange.is_complete:
                transfer.check()
                if hashes.is_complete and not kept:
                    kept = True
                    arrivals.keep(manifest, hashes)
                await transfer.change(SEARCH_SECONDS)
            if not await asyncio.to_thread(transfer.file.has_digest):
                raise FileError(
                    f"{manifest.name} arrived, and its checksum is wrong: the disk changed what was written"
                )
            transfer.path = arrivals.finish(manifest)
            arrived.put_nowait(transfer.path)
        except FileError as error:
            arrived.put_nowait(error)

    # -- exchanging --

    def _begin(self, manifest: Manifest, file: PieceFile) -> Transfer:
        transfer = self._transfers[manifest.id] = Transfer(manifest, file)
        return transfer

    def _share(self, transfer: Transfer, hashes: HashList, pieces: PieceSet) -> Exchange:
        """Begin to exchange pieces with others, and let them find this node."""
        manifest = transfer.manifest
        exchange = transfer.exchange = Exchange(
            self._runtime.context("channel"),
            manifest,
            transfer.file,
            hashes,
            pieces,
            transfer.changed,
            self._drops.add,
        )
        exchange.start()
        self._directory.announce(_holders_of(manifest))
        self._start(self._search(transfer, exchange))
        return exchange

    async def _search(self, transfer: Transfer, exchange: Exchange) -> None:
        """Look for others, as long as something is missing."""

        def found(contacts: tuple[Contact, ...]) -> None:
            for contact in contacts:
                exchange.meet(contact)

        while not exchange.is_complete:
            self._directory.contacts(_holders_of(transfer.manifest), 8, found)
            await asyncio.sleep(SEARCH_SECONDS)

    def _receive(self, sender: Contact, message: Holds | Wanted | Piece | PieceHashes) -> None:
        transfer = self._transfers.get(message.file)
        if transfer is None or transfer.exchange is None:
            self._drops.add("unknown_file")
            return
        try:
            transfer.exchange.receive(sender, message)
        except FileError as error:
            transfer.exchange.stop()
            transfer.fail(error)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))


def _holders_of(manifest: Manifest) -> str:
    """The name in the directory of those that have pieces of a file; no topic has such a name."""
    return f"file:{manifest.id.hex()}"
