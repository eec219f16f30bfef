"""Fetching the checksums of a file's pieces: all of them from one holder, or none.

The checksums come in parts, and only the whole can be checked against the manifest. Were parts of several
holders put together, one wrong part would spoil the honest ones, and nobody could say whose it was. So one
holder at a time is asked, and answers for all of it.
"""

from __future__ import annotations

from enum import Enum

from overlay.contact import PeerId
from pubsub.files.manifest import Manifest
from pubsub.files.protocol.hash_list import HashList
from pubsub.files.protocol.messages import PieceHashes


class Outcome(Enum):
    """What became of a part."""

    UNASKED = "unasked"
    """Nobody asked this peer for it: not looked at."""
    TAKEN = "taken"
    COMPLETE = "complete"
    """All checksums are there, and agree with the manifest."""
    WRONG = "wrong"
    """The peer sent checksums that are not the file's, or that cannot be any."""


class HashFetch:
    """Gathers one holder's checksums; whoever is not heard in time is given up for the next one."""

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

    def receive(self, peer: PeerId, part: PieceHashes) -> Outcome:
        if peer != self._source or not self._is_awaited or part.first != self._gathered.known:
            return Outcome.UNASKED
        self._is_awaited = False
        if part.hashes and self._gathered.add(part.first, part.hashes):
            return Outcome.COMPLETE if self._gathered.is_complete else Outcome.TAKEN
        self._begin(None)
        return Outcome.WRONG

    def forget(self, peer: PeerId) -> None:
        """The peer is gone: ask another one, from the beginning."""
        if peer == self._source:
            self._begin(None)

    def _begin(self, source: PeerId | None) -> None:
        self._source = source
        self._is_awaited = False
        self._gathered = HashList(self._manifest)
