"""One file's exchange at one node: gets the pieces it lacks, and gives those it has to every peer that asks.

All holders are alike; the first one merely has everything from the start. Each tells its peers every
`TELL_SECONDS` what it has and whom it knows, asks every peer for a few pieces at a time, chosen at random so
that holders complement one another, and asks somebody else when a piece does not come. So the first holder
need not give each piece to everyone, and may go when the others have all pieces between them.

Promised, over links that lose and repeat: as long as every piece is at some holder that can be reached,
directly or through common peers, each holder gets all of them, and no byte that the manifest does not vouch
for (section 7 of the reliable delivery paper).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.wire import message
from pubsub.files.manifest import FileError, HashList, Manifest, PieceSet

TELL_SECONDS = 1.0
"""Between two tellings of what one has."""
PATIENCE = 8.0
"""Seconds after which a piece is asked of somebody else."""
SILENCE = 30.0
"""Seconds after which a peer that says nothing is forgotten."""
ASKED_AT_ONCE = 6
"""Pieces asked of one peer and not come yet."""
MOST_PEERS = 128
PEERS_TOLD = 8
MOST_BAD = 3
"""Pieces with wrong checksums after which a peer is not listened to any more."""
LOOKED_AT = 512
"""Missing pieces that are looked at in search of one that a peer has; if none is found, later again."""
MOST_WANTED = 64
"""Pieces in one request; further ones are not answered."""


@message(0x7C)
class Holds:
    """What the sender has of a file."""

    file: bytes
    pieces: bytes
    """A `PieceSet`, packed."""
    peers: tuple[Contact, ...]
    """Some others that have pieces of it or want them."""
    answer: bool
    """Whether the receiver is to say the same of itself."""


@message(0x7D)
class WantedPieces:
    """Asks for pieces, or for the checksums of all pieces from `hashes_from` on."""

    file: bytes
    pieces: tuple[int, ...]
    hashes_from: int | None


@message(0x7E)
class Piece:
    """A piece of a file."""

    file: bytes
    index: int
    data: bytes


@message(0x7F)
class PieceHashes:
    """Checksums of the pieces from `first` on, one after the other."""

    file: bytes
    first: int
    hashes: bytes


class FilePeer:
    """What it has, what it was asked for, and when it was last heard."""

    __slots__ = ("asked", "bad", "contact", "heard_at", "pieces")

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.heard_at = now
        self.pieces: PieceSet | None = None
        """None until it has told."""
        self.asked: dict[int, float] = {}
        """Pieces asked of it and not come yet, and since when."""
        self.bad = 0
        """Pieces from it whose checksum was wrong."""


UNASKED, WRONG = "unasked_hashes", "wrong_hashes"
"""Why checksums are of no use."""


class HashFetch:
    """Gathers one holder's checksums; a holder that is not heard in time is given up for the next one.

    The checksums come in parts, and only all of them together can be checked against the manifest. If parts
    of several holders were put together, one wrong part would spoil the right ones, and nobody could say
    whose it was. So one holder at a time is asked, and answers for all parts."""

    def __init__(self, manifest: Manifest, patience: float) -> None:
        """`patience`: seconds that one part may take."""
        self._manifest = manifest
        self._patience = patience
        self._source: PeerId | None = None
        self._asked_at = 0.0
        self._is_awaited = False
        self._gathered = HashList(manifest)

    @property
    def hashes(self) -> bytes:
        """What the holder has sent so far."""
        return self._gathered.packed()

    @property
    def is_complete(self) -> bool:
        """All checksums are there, and agree with the manifest."""
        return self._gathered.is_complete

    def next_part(self, peer: PeerId, now: float) -> int | None:
        """From which piece on `peer` is to be asked for checksums now; None for not at all."""
        if self._source is not None and self._source != peer:
            if now - self._asked_at <= self._patience:
                return None
            self._begin(None)
        if self._is_awaited and now - self._asked_at <= self._patience:
            return None
        if self._source is None:
            self._begin(peer)
        self._is_awaited, self._asked_at = True, now
        return self._gathered.known

    def receive(self, peer: PeerId, part: PieceHashes) -> str:
        """Take a part; why it is of no use, or an empty text. A peer whose checksums are not the file's, or
        cannot be any, is given up."""
        if peer != self._source or not self._is_awaited or part.first != self._gathered.known:
            return UNASKED
        self._is_awaited = False
        if part.hashes and self._gathered.add(part.first, part.hashes):
            return ""
        self._begin(None)
        return WRONG

    def forget(self, peer: PeerId) -> None:
        """The peer is gone: ask another one, from the beginning."""
        if peer == self._source:
            self._begin(None)

    def _begin(self, source: PeerId | None) -> None:
        self._source = source
        self._is_awaited = False
        self._gathered = HashList(self._manifest)


class Storage(Protocol):
    """Where a file's pieces are."""

    def read(self, index: int) -> bytes: ...

    def write(self, index: int, data: bytes) -> None: ...


def checked_piece(storage: Storage, manifest: Manifest, hashes: HashList, index: int) -> bytes:
    """A piece to give away; `FileError` when it is not any more what was described, or arrived."""
    data = storage.read(index)
    if not hashes.agrees(index, data):
        raise FileError(f"{manifest.name} has changed on the disk since its checksums were taken")
    return data


class PieceExchange:
    """A core; its links should be channels. `on_change` is called whenever it has got or given something.

    `FileError` from the storage, or for content that has changed there, goes through to the caller."""

    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        storage: Storage,
        hashes: HashList,
        pieces: PieceSet,
        on_change: Callable[[], None] = lambda: None,
        drop: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`drop` counts what peers sent and was of no use, under a reason."""
        self.manifest = manifest
        self.file = manifest.id
        self.pieces = pieces
        self.hashes = hashes
        self.given = 0
        """Bytes sent to peers."""
        self._context = context
        self._storage = storage
        self._on_change = on_change
        self._drop = drop
        self._peers: dict[PeerId, FilePeer] = {}
        self._banned: dict[PeerId, None] = {}
        self._finished: dict[PeerId, None] = {}
        self._hash_fetch = HashFetch(manifest, PATIENCE)
        self._asked: dict[int, PeerId] = {}
        self._missing: list[int] = []
        self._places: dict[int, int] = {}
        self._timer: Timer | None = None
        self._is_laid_out = False

    # -- life --

    def start(self) -> None:
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_complete(self) -> bool:
        return self.pieces.is_full and self.hashes.is_complete

    @property
    def finished_peers(self) -> int:
        """Peers that have, or had when they were last heard, everything."""
        return len(self._finished)

    @property
    def waiting_peers(self) -> int:
        """Peers that have told what they have, and lack something."""
        return sum(1 for one in self._peers.values() if one.pieces and not one.pieces.is_full)

    def meet(self, contact: Contact) -> None:
        """Somebody may have pieces, or want some."""
        if self._peer(contact) is not None:
            self._tell(contact, answer=True)

    def receive(self, sender: Contact, message: object) -> None:
        peer = self._peer(sender)
        if peer is None:
            self._drop("stranger")
            return
        peer.heard_at = self._context.now()
        match message:
            case Holds():
                self._receive_holds(peer, message)
            case WantedPieces():
                self._receive_wanted(peer, message)
            case Piece():
                self._receive_piece(peer, message)
            case PieceHashes():
                self._receive_hashes(peer, message)

    def take(self, fragment: Piece | PieceHashes) -> bool:
        """Take what came by another way than from a peer; whether it was of use."""
        if isinstance(fragment, PieceHashes):
            known = self.hashes.known
            self.hashes.add(fragment.first, fragment.hashes)
            return self.hashes.known > known
        index = fragment.index
        if not 0 <= index < self.manifest.pieces or not self.hashes.is_complete:
            return False
        if index in self.pieces or not self.hashes.agrees(index, fragment.data):
            return False
        self._take(fragment)
        return True

    def _peer(self, contact: Contact) -> FilePeer | None:
        """The peer, new where there is room for one more; None for one's own self and those banned."""
        if contact.id == self._context.contact.id or contact.id in self._banned:
            return None
        peer = self._peers.get(contact.id)
        if peer is None and len(self._peers) < MOST_PEERS:
            peer = self._peers[contact.id] = FilePeer(contact, self._context.now())
        elif peer is not None:
            peer.contact = contact
        return peer

    def _tick(self) -> None:
        now = self._context.now()
        for peer in list(self._peers.values()):
            if now - peer.heard_at > SILENCE:
                self._forget(peer)
                continue
            for index in [i for i, since in peer.asked.items() if now - since > PATIENCE]:
                self._unask(peer, index)
            is_full = peer.pieces is not None and peer.pieces.is_full
            if not (is_full and self.is_complete):  # then there is nothing left to say
                self._tell(peer.contact, answer=not is_full)
        for peer in self._peers.values():
            self._ask(peer)
        self._timer = self._context.call_later(
            self._context.random.uniform(0.8, 1.2) * TELL_SECONDS, self._tick
        )

    def _forget(self, peer: FilePeer) -> None:
        for index in list(peer.asked):
            self._unask(peer, index)
        del self._peers[peer.contact.id]
        self._hash_fetch.forget(peer.contact.id)

    # -- telling --

    def _tell(self, to: Contact, *, answer: bool) -> None:
        others = [peer.contact for peer in self._peers.values() if peer.contact.id != to.id]
        known = self._context.random.sample(others, min(PEERS_TOLD, len(others)))
        self._context.send(to, Holds(self.file, self.pieces.packed(), tuple(known), answer))

    def _receive_holds(self, peer: FilePeer, holds: Holds) -> None:
        pieces = PieceSet.unpack(self.manifest.pieces, holds.pieces)
        if pieces is None or len(holds.peers) > PEERS_TOLD:
            self._drop("malformed_holds")
            return
        peer.pieces = pieces
        if pieces.is_full:
            self._finished[peer.contact.id] = None
        if holds.answer:
            self._tell(peer.contact, answer=False)
        for contact in holds.peers:
            if contact.id not in self._peers:
                self.meet(contact)
        self._ask(peer)
        self._on_change()

    # -- getting --

    def _ask(self, peer: FilePeer) -> None:
        """Ask a peer for what it has and we lack, for at most `ASKED_AT_ONCE` pieces at a time."""
        if self.is_complete or peer.pieces is None or not peer.pieces.count:
            return
        now = self._context.now()
        if not self.hashes.is_complete:
            first = self._hash_fetch.next_part(peer.contact.id, now)
            if first is not None:
                self._context.send(peer.contact, WantedPieces(self.file, (), first))
            return
        chosen: list[int] = []
        while len(peer.asked) < ASKED_AT_ONCE:
            index = self._choose(peer.pieces)
            if index is None:
                break
            self._asked[index] = peer.contact.id
            peer.asked[index] = now
            chosen.append(index)
        if chosen:
            self._context.send(peer.contact, WantedPieces(self.file, tuple(chosen), None))

    def _choose(self, theirs: PieceSet) -> int | None:
        """A piece that they have, and that is neither here nor asked for: any of them."""
        self._lay_out()
        missing = self._missing
        if len(self._asked) >= len(missing):
            return None
        start = self._context.random.randrange(0, len(missing))
        for step in range(min(len(missing), LOOKED_AT)):
            index = missing[(start + step) % len(missing)]
            if index not in self._asked and index in theirs:
                return index
        return None

    def _lay_out(self) -> None:
        """List the missing pieces, once their checksums are there. An announcement of a few bytes may speak
        of millions of pieces: who wants them listed has to send 32 bytes for each."""
        if not self._is_laid_out:
            self._is_laid_out = True
            self._missing = list(self.pieces.missing())
            self._places = {index: place for place, index in enumerate(self._missing)}

    def _unask(self, peer: FilePeer, index: int) -> None:
        peer.asked.pop(index, None)
        if self._asked.get(index) == peer.contact.id:
            del self._asked[index]

    def _receive_piece(self, peer: FilePeer, piece: Piece) -> None:
        if not 0 <= piece.index < self.manifest.pieces or not self.hashes.is_complete:
            self._drop("unknown_piece")
            return
        self._unask(peer, piece.index)
        if piece.index in self.pieces:
            self._drop("piece_again")
        elif not self.hashes.agrees(piece.index, piece.data):
            self._drop("wrong_checksum")
            peer.bad += 1
            if peer.bad >= MOST_BAD:
                self._ban(peer)
                return
        else:
            self._take(piece)
        self._ask(peer)

    def _take(self, piece: Piece) -> None:
        self._lay_out()
        self._storage.write(piece.index, piece.data)
        self.pieces.add(piece.index)
        place = self._places.pop(piece.index)
        last = self._missing.pop()
        if last != piece.index:
            self._missing[place] = last
            self._places[last] = place
        if self.is_complete:
            for peer in self._peers.values():
                self._tell(peer.contact, answer=False)
        self._on_change()

    def _receive_hashes(self, peer: FilePeer, part: PieceHashes) -> None:
        reason = self._hash_fetch.receive(peer.contact.id, part)
        if reason:
            self._drop(reason)
        if reason == WRONG:
            self._ban(peer)
        if self._hash_fetch.is_complete and not self.hashes.is_complete:
            self.hashes.replace(self._hash_fetch.hashes)
        for other in list(self._peers.values()):
            self._ask(other)

    def _ban(self, peer: FilePeer) -> None:
        self._forget(peer)
        self._banned[peer.contact.id] = None

    # -- giving --

    def _receive_wanted(self, peer: FilePeer, wanted: WantedPieces) -> None:
        if wanted.hashes_from is not None:
            if self.hashes.is_complete and 0 <= wanted.hashes_from <= self.manifest.pieces:
                part = self.hashes.part(wanted.hashes_from)
                self._context.send(peer.contact, PieceHashes(self.file, wanted.hashes_from, part))
            return
        for index in wanted.pieces[:MOST_WANTED]:
            if 0 <= index < self.manifest.pieces and index in self.pieces:
                data = checked_piece(self._storage, self.manifest, self.hashes, index)
                self.given += len(data)
                self._context.send(peer.contact, Piece(self.file, index, data))
            else:
                self._drop("unknown_piece")
        self._on_change()
