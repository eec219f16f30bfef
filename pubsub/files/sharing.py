"""Files over a topic: send one to all subscribers, receive those that others send.

    async with FileSharing(node) as files:
        await files.send("match.mp4", "/videos", receivers=3)

    async with FileSharing(node) as files:
        async for path in files.receive("/videos", "downloads"):
            print(path)

A sender announces its file by an event of the topic, again and again while it sends. A receiver asks the
sender and the other receivers for pieces, and gives away those that it has. An interrupted receiver goes on
with what it had; an interrupted sender may begin anew, anywhere. A file gets its name when it is whole on the
disk and its SHA-256 is that of the announcement.

Where there is an authority, who sends needs the right to publish on the topic, and pieces are given to those
with the right to subscribe alone.

With `archive` the pieces are durable events instead: an archive has all of the file when `archive` returns,
and durable receivers that are away get it later, even if the sender has gone by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, Self

from overlay.contact import Contact
from overlay.errors import UsageError
from pubsub.archive.protocol.config import DEADLINE
from pubsub.archive.publishing import wait_until_safe
from pubsub.files.archived import SendingRecord, fragments_of
from pubsub.files.disk import Arrivals, PieceFile, describe_file
from pubsub.files.exchange import Holds, Piece, PieceExchange, PieceHashes, WantedPieces
from pubsub.files.manifest import HASHES_A_MESSAGE, HashList, Manifest, PieceSet
from pubsub.files.receiving import Receiving, Transfer
from pubsub.files.storage import FileStorage, in_thread
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.reliable.receipts import Budget
from pubsub.reliable.tasks import Tasks
from pubsub.rights import Action, Holder
from pubsub.topic import Topic

ANNOUNCE_SECONDS = 3.0
"""Between two announcements of a file that is being sent."""
FIRST_SEARCH_SECONDS = 0.25
"""From the first search for others that have pieces of a file to the next: many begin at the same time, and
are in the directory a little later. The pauses double."""
SEARCH_SECONDS = 10.0
"""The longest pause between two searches."""
MOST_SHARED = 64
"""Files that have arrived and are given away at one time; each is announced in the directory."""
UNSAFE_PIECES = 6
"""Pieces on their way to an archive at one time. An archive that is in the topic's community may be sent each
of them twice, for its store and as any member is: both have room in a channel's buffer of 4 MiB."""
_MESSAGES = (Holds, WantedPieces, Piece, PieceHashes)


class FileSharing:
    """The files that one node sends and receives; it gives away what it has until it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runtime = node.attachment.runtime
        self._directory = node.attachment.directory
        self._transfers: dict[bytes, Transfer] = {}
        self.tasks = Tasks("file sharing", node.metrics)
        self._drops = node.metrics.family(
            "file_messages_dropped", "reason", "Messages about files that were of no use"
        )

    async def __aenter__(self) -> Self:
        for kind in _MESSAGES:
            self._runtime.on(kind, self._receive)
        gate = self._node.attachment.gate
        if gate is not None:
            gate.require(dict.fromkeys(_MESSAGES, self._may_send))
        return self

    async def __aexit__(self, *_: object) -> None:
        for message_kind in _MESSAGES:
            self._runtime.off(message_kind)
        for transfer in self.transfers:
            self.end(transfer)
        await self.tasks.close()

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The files that are sent, received and given away, in the order in which they began."""
        return tuple(self._transfers.values())

    # -- sending --

    async def send(self, path: str | Path, topic: str, *, receivers: int = 1) -> Transfer:
        """Send a file to a topic's subscribers, until `receivers` have it and nobody has only a part."""
        if receivers < 1:
            raise UsageError(
                f"receivers={receivers} is not a number of receivers: it must be 1 or more"
            )
        transfer, hashes = await self._described(Path(path), topic)
        manifest = transfer.manifest
        if transfer.exchange is None:
            self.share(transfer, hashes, PieceSet.full(manifest.pieces))
        announcement = manifest.to_data(self._runtime.contact.packed())
        while transfer.finished_peers < receivers or transfer.waiting_peers:
            transfer.check()
            await self._node.publish(topic, announcement)
            await self._until_finished(transfer, receivers)
        return transfer

    async def _described(self, path: Path, topic: str) -> tuple[Transfer, HashList]:
        """The transfer of a file to a topic, and the checksums of its pieces."""
        self._node.check_right(Action.PUBLISH, Topic.of(topic).name)
        manifest, hashes = await in_thread(partial(describe_file, path, Topic.of(topic).name))
        transfer = self._transfers.get(manifest.id)
        if transfer is None:
            file = await in_thread(partial(PieceFile, path, manifest))
            transfer = self._transfers.get(manifest.id) or self.begin(manifest, file)
        return transfer, hashes

    async def _until_finished(self, transfer: Transfer, receivers: int) -> None:
        """Return when the file has been sent, or after a while."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ANNOUNCE_SECONDS
        while transfer.finished_peers < receivers or transfer.waiting_peers:
            rest = until - loop.time()
            if rest <= 0:
                break
            await transfer.change(rest)

    async def archive(self, path: str | Path, topic: str, **publishing: Any) -> Transfer:
        """Send a file as durable events; returns when all of it is safe, or raises as `publish` does.

        An interrupted one goes on where it was (see `SendingRecord`). `publishing` goes to `Node.publish`,
        with each piece: `copies`, `deadline`."""
        transfer, hashes = await self._described(Path(path), topic)
        record = await in_thread(partial(SendingRecord, Path(path), transfer.manifest, topic))
        transfer.archived_pieces = record.safe
        try:
            await self._archive(transfer, hashes, topic, record, publishing)
        except BaseException:
            await in_thread(record.write)
            raise
        await in_thread(record.remove)
        return transfer

    async def _archive(
        self,
        transfer: Transfer,
        hashes: HashList,
        topic: str,
        record: SendingRecord,
        publishing: dict[str, Any],
    ) -> None:
        """Publish what is not safe yet, some of it at a time."""
        manifest, holder = transfer.manifest, self._runtime.contact.packed()
        on_their_way: deque[Receipt] = deque()
        heads = 1 + -(-manifest.pieces // HASHES_A_MESSAGE)

        async def one_is_safe() -> None:
            nonlocal heads
            deadline = Budget(publishing.get("deadline", DEADLINE))
            await wait_until_safe(on_their_way.popleft(), deadline)
            if heads:
                heads -= 1
                return
            transfer.archived_pieces += 1
            if record.advance(transfer.archived_pieces):
                await in_thread(record.write)

        fragments = fragments_of(manifest, hashes, transfer.file, holder, record.safe)
        while (data := await in_thread(partial(next, fragments, None))) is not None:
            if len(on_their_way) >= UNSAFE_PIECES:
                await one_is_safe()
            on_their_way.append(
                await self._node.publish(topic, data, durable=True, wait="sent", **publishing)
            )
        while on_their_way:
            await one_is_safe()

    # -- receiving --

    async def receive(
        self, topic: str, directory: str | Path, **subscribing: Any
    ) -> AsyncGenerator[Path, None]:
        """The files of a topic, each when it has arrived; unfinished ones of the directory go on at once.

        It ends when the node or this object is closed, and raises what the subscription or the disk fails
        with. One process at a time receives into a directory. `subscribing` goes to `Node.subscribe`:
        `durable="a name"` misses nothing that was archived."""
        arrivals = await in_thread(partial(Arrivals, Path(directory)))
        receiving = Receiving(self, arrivals)
        lock = await in_thread(arrivals.lock)
        try:
            async with self._node.subscribe(topic, **subscribing) as events:
                await receiving.resume()
                listening = self.tasks.start("listening", receiving.listen(events), vital=False)
                try:
                    while (one := await receiving.arrived.get()) is not None:
                        if isinstance(one, BaseException):
                            raise one
                        yield one
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        finally:
            lock.release()

    # -- exchanging --

    def transfer(self, file: bytes) -> Transfer | None:
        return self._transfers.get(file)

    def begin(self, manifest: Manifest, file: PieceFile) -> Transfer:
        transfer = self._transfers[manifest.id] = Transfer(manifest, file)
        return transfer

    def end(self, transfer: Transfer) -> None:
        """Give nothing more of a file, and have nobody find it here."""
        if self._transfers.pop(transfer.manifest.id, None) is not None and transfer.exchange:
            transfer.exchange.stop()
            transfer.storage.close()
            self._directory.withdraw(_holders_of(transfer.manifest))

    def retire(self) -> None:
        """Of the files that have arrived give away the latest ones only."""
        arrived = [one for one in self.transfers if one.path is not None and not one.waiting_peers]
        for transfer in arrived[:-MOST_SHARED]:
            self.end(transfer)

    def share(self, transfer: Transfer, hashes: HashList, pieces: PieceSet | None) -> PieceExchange:
        """Begin to exchange pieces with others, and let them find this node."""
        manifest = transfer.manifest
        failed = partial(self._failed, transfer)
        transfer.storage = FileStorage(transfer.file, hashes, self.tasks, failed)
        exchange = transfer.exchange = PieceExchange(
            self._runtime.context("channel"),
            manifest,
            transfer.storage,
            hashes,
            PieceSet(manifest.pieces) if pieces is None else pieces,
            transfer.changed,
            self.drop,
        )
        exchange.start()
        transfer.changed()
        self._directory.announce(_holders_of(manifest))
        self.tasks.start("search", self._search(transfer, exchange), vital=False)
        return exchange

    def _failed(self, transfer: Transfer, error: Exception) -> None:
        """The disk has failed with a file."""
        if transfer.exchange is not None:
            transfer.exchange.stop()
        transfer.fail(error)

    async def _search(self, transfer: Transfer, exchange: PieceExchange) -> None:
        """Look for others, as long as something is missing."""

        def found(contacts: tuple[Contact, ...]) -> None:
            for contact in contacts:
                exchange.meet(contact)

        pause = FIRST_SEARCH_SECONDS
        while not exchange.is_complete:
            self._directory.contacts(_holders_of(transfer.manifest), 8, found)
            await asyncio.sleep(pause)
            pause = min(2 * pause, SEARCH_SECONDS)

    def _receive(
        self, sender: Contact, message: Holds | WantedPieces | Piece | PieceHashes
    ) -> None:
        transfer = self._transfers.get(message.file)
        if transfer is None or transfer.exchange is None:
            self.drop("unknown_file")
        else:
            transfer.exchange.receive(sender, message)

    def _may_send(self, peer: Holder, message: Holds | WantedPieces | Piece | PieceHashes) -> bool:
        """Pieces are given to those that may subscribe to the file's topic; its publishers have some too."""
        transfer = self._transfers.get(message.file)
        if transfer is None:
            return True  # nothing is given of a file that is not here
        if isinstance(message, WantedPieces):
            return peer.may(Action.SUBSCRIBE, transfer.manifest.topic)
        return peer.may_publish_or_subscribe(transfer.manifest.topic)

    def drop(self, reason: str) -> None:
        """Count what a peer sent and was of no use."""
        self._drops.add(reason)


def _holders_of(manifest: Manifest) -> str:
    """The name in the directory of those that have pieces of a file; no topic has such a name."""
    return f"file:{manifest.id.hex()}"
