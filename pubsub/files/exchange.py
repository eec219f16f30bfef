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
from functools import partial
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.wire import message
from pubsub.files.manifest import HashList, Manifest, PieceSet

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
"""Pieces that a peer wants and that are being read for it; further ones are not given."""
MOST_UNWRITTEN = 32
"""Pieces that wait for the disk before no more are asked for."""


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

    __slots__ = ("asked", "bad", "contact", "heard_at", "pieces", "unread", "unwritten")

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.heard_at = now
        self.pieces: PieceSet | None = None
        """None until it has told."""
        self.asked: dict[int, float] = {}
        """Pieces asked of it and not come yet, and since when."""
        self.bad = 0
        """Pieces from it whose checksum was wrong."""
        self.unread = 0
        """Pieces that are being read for it."""
        self.unwritten = 0
        """Pieces from it that are being checked and written."""


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
        self.gathered = HashList(manifest)
        """What the holder has sent so far."""

    def next_part(self, peer: PeerId, now: float) -> int | None:
        """From which piece on `peer` is to be asked for checksums now; None for not at all."""
        if self.gathered.is_full:
            return None
        if self._source is not None and self._source != peer:
            if now - self._asked_at <= self._patience:
                return None
            self._begin(None)
        if self._is_awaited and now - self._asked_at <= self._patience:
            return None
        if self._source is None:
            self._begin(peer)
        self._is_awaited, self._asked_at = True, now
        return self.gathered.known

    def receive(self, peer: PeerId, part: PieceHashes) -> str:
        """Take a part; why it is of no use, or an empty text. A peer whose part cannot be one is given up."""
        if peer != self._source or not self._is_awaited or part.first != self.gathered.known:
            return UNASKED
        self._is_awaited = False
        if part.hashes and self.gathered.add(part.first, part.hashes):
            return ""
        self._begin(None)
        return WRONG

    def forget(self, peer: PeerId) -> None:
        """The peer is gone, or has lied: ask another one, from the beginning."""
        if peer == self._source:
            self._begin(None)

    def _begin(self, source: PeerId | None) -> None:
        self._source = source
        self._is_awaited = False
        self.gathered = HashList(self._manifest)


class Storage(Protocol):
    """Where a file's pieces are. It reads, hashes and writes while the exchange goes on, in the order of the
    calls, and calls back. Where it fails it tells its owner, and calls back no more."""

    def read(self, index: int, then: Callable[[bytes], None]) -> None:
        """A piece, which agrees with its checksum."""

    def write(self, index: int, data: bytes, then: Callable[[bool], None]) -> None:
        """Keep a piece if it agrees with its checksum; whether it does."""

    def check(self, hashes: HashList, then: Callable[[bool], None]) -> None:
        """Whether a full list of checksums agrees with the manifest."""


class PieceExchange:
    """A core; its links should be channels. `on_change` is called whenever it has got or given something."""

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
        self._unwritten = 0
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

    def take(self, fragment: Piece | PieceHashes) -> None:
        """Take what came by another way than from a peer, if it is of use."""
        if isinstance(fragment, PieceHashes):
            self.hashes.add(fragment.first, fragment.hashes)
            if self.hashes.is_full and not self.hashes.is_complete:
                self._storage.check(self.hashes, lambda is_right: self._ask_all())
        elif self._is_piece(fragment.index) and fragment.index not in self.pieces:
            self._write(fragment, None)

    def _is_piece(self, index: int) -> bool:
        """Whether it is one of the file's whose checksum is known."""
        return 0 <= index < self.manifest.pieces and self.hashes.is_complete

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
        self._ask_all()
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

    def _ask_all(self) -> None:
        for peer in list(self._peers.values()):
            self._ask(peer)

    def _ask(self, peer: FilePeer) -> None:
        """Ask a peer for what it has and we lack, for at most `ASKED_AT_ONCE` pieces at a time."""
        if self.is_complete or peer.pieces is None or not peer.pieces.count:
            return
        if self._unwritten >= MOST_UNWRITTEN:
            return  # the disk is slower than the peers
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
        if not self._is_piece(piece.index):
            self._drop("unknown_piece")
        elif piece.index in self.pieces:
            self._drop("piece_again")
            self._unask(peer, piece.index)
            self._ask(peer)
        elif peer.unwritten >= 2 * ASKED_AT_ONCE:
            self._drop("too_many_pieces")
        else:
            if piece.index in peer.asked:
                peer.asked[piece.index] = (
                    self._context.now()
                )  # it is the disk that is waited for now
            peer.unwritten += 1
            self._write(piece, peer)

    def _write(self, piece: Piece, peer: FilePeer | None) -> None:
        self._unwritten += 1
        self._storage.write(piece.index, piece.data, partial(self._written, piece.index, peer))

    def _written(self, index: int, peer: FilePeer | None, is_right: bool) -> None:
        """A piece is there now, or was wrong. It came from a peer, or in another way."""
        self._unwritten -= 1
        if is_right and index not in self.pieces:
            self._add(index)
        if peer is None:
            return
        peer.unwritten -= 1
        self._unask(peer, index)
        if not is_right:
            self._drop("wrong_checksum")
            peer.bad += 1
        if not self._is_peer(peer):
            return
        if peer.bad >= MOST_BAD:
            self._ban(peer)
        else:
            self._ask(peer)

    def _is_peer(self, peer: FilePeer) -> bool:
        """Whether it still is one; it may have been forgotten while the disk was busy."""
        return self._peers.get(peer.contact.id) is peer

    def _add(self, index: int) -> None:
        self._lay_out()
        self.pieces.add(index)
        place = self._places.pop(index)
        last = self._missing.pop()
        if last != index:
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
        gathered = self._hash_fetch.gathered
        if not reason and gathered.is_full and not self.hashes.is_complete:
            self._storage.check(gathered, partial(self._checked, peer, gathered))
        else:
            self._ask_all()

    def _checked(self, peer: FilePeer, gathered: HashList, is_right: bool) -> None:
        """One holder's checksums are the file's, or are not."""
        if is_right:
            self.hashes.replace(gathered)
        else:
            self._drop(WRONG)
            if self._is_peer(peer):
                self._ban(peer)
        self._ask_all()

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
            if not self._is_piece(index) or index not in self.pieces:
                self._drop("unknown_piece")
            elif peer.unread >= MOST_WANTED:
                self._drop("too_many_wanted")
            else:
                peer.unread += 1
                self._storage.read(index, partial(self._give, index, peer))

    def _give(self, index: int, peer: FilePeer, data: bytes) -> None:
        peer.unread -= 1
        self.given += len(data)
        self._context.send(peer.contact, Piece(self.file, index, data))
        self._on_change()
