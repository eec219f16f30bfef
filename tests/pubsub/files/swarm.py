"""Exchanges of one file on a stage, with pieces in memory."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

from overlay.contact import Contact
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.files.exchange import PieceExchange
from pubsub.files.manifest import HashList, Manifest, PieceSet

PIECE = 100


class MemoryPieces:
    """Keeps pieces as long as the test does."""

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}
        self.hashes: HashList
        """Those of the exchange that is running."""

    def read(self, index: int, then: Callable[[bytes], None]) -> None:
        then(self.pieces[index])

    def write(self, index: int, data: bytes, then: Callable[[bool], None]) -> None:
        is_right = self.hashes.agrees(index, data)
        if is_right:
            self.pieces[index] = data
        then(is_right)

    def check(self, hashes: HashList, then: Callable[[bool], None]) -> None:
        then(hashes.check())

    def content(self) -> bytes:
        return b"".join(data for _, data in sorted(self.pieces.items()))


class Swarm:
    """Holder 0 has the file; the others want it, and know holder 0."""

    def __init__(self, seed: int, receivers: int, pieces: int = 40, **network: float) -> None:
        self.stage = Stage(seed, StageConfig(check_wire=True, **network))  # type: ignore[arg-type]
        self.content = random.Random(seed).randbytes(pieces * PIECE - 30)
        parts = [self.content[i : i + PIECE] for i in range(0, len(self.content), PIECE)]
        self.hashes = b"".join(hashlib.sha256(part).digest() for part in parts)
        self.manifest = Manifest(
            "a file",
            len(self.content),
            PIECE,
            hashlib.sha256(self.content).digest(),
            hashlib.sha256(self.hashes).digest(),
            "/videos",
        )
        self.contacts = [numbered_contact(number) for number in range(receivers + 1)]
        self.storages = [MemoryPieces() for _ in self.contacts]
        self.storages[0].pieces = dict(enumerate(parts))
        self.exchanges: dict[int, PieceExchange] = {}
        self.dropped: dict[str, int] = {}
        for number in range(receivers + 1):
            self.start(number)

    def start(self, number: int) -> PieceExchange:
        """Begin, or begin again, with what the storage has."""
        has = PieceSet(self.manifest.pieces)
        for index in self.storages[number].pieces:
            has.add(index)
        known = self.hashes if len(self.storages[number].pieces) else b""
        hashes = self.storages[number].hashes = HashList(self.manifest, known)
        exchange = self.exchanges[number] = PieceExchange(
            self.stage.context(self.contacts[number]),
            self.manifest,
            self.storages[number],
            hashes,
            has,
            drop=self._drop,
        )
        self.stage.attach(self.contacts[number], exchange.receive)
        exchange.start()
        if number:
            exchange.meet(self.contacts[0])
        return exchange

    def crash(self, number: int) -> None:
        self.stage.crash(self.contacts[number])

    def restart(self, number: int) -> None:
        self.stage.restart(self.contacts[number])
        self.start(number)

    def run_until_complete(self, seconds: float = 120.0) -> None:
        """Every holder that is up gets the whole file."""
        end = self.stage.now + seconds
        while self.stage.now < end and not all(self.is_whole(n) for n in self.up()):
            self.stage.run_for(1.0)
        late = [number for number in self.up() if not self.is_whole(number)]
        assert not late, f"seed {self.stage.seed}: {late} lack pieces after {seconds} s"

    def up(self) -> list[int]:
        return [n for n, contact in enumerate(self.contacts) if self.stage.is_up(contact)]

    def is_whole(self, number: int) -> bool:
        return (
            self.exchanges[number].is_complete and self.storages[number].content() == self.content
        )

    def spread(self) -> set[int]:
        """The pieces that receivers have among them."""
        return {index for storage in self.storages[1:] for index in storage.pieces}

    def contact(self, number: int) -> Contact:
        return self.contacts[number]

    def _drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
