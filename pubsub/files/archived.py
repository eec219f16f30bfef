"""A file as events: its manifest, the checksums of its pieces, and the pieces, each as an event's data.

So an archive keeps the whole file like anything else, and a receiver that was away gets it later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pubsub.files.disk import PieceFile
from pubsub.files.exchange import Piece, PieceHashes
from pubsub.files.manifest import HASHES_A_MESSAGE, HashList, Manifest

WRITE_EVERY = 64
"""Pieces from one writing to the next."""
_PIECE, _HASHES = "camcast-piece", "camcast-hashes"


def fragments_of(
    manifest: Manifest, hashes: HashList, file: PieceFile, holder: bytes, first_piece: int = 0
) -> Iterator[dict[str, Any]]:
    """The data of the events that carry a file, in the order in which they are to be published.

    `first_piece`: the pieces before it are known to be safe. The manifest and the checksums are there all
    the same, for a piece is of no use before them, and who goes on may be another publisher.
    Each is read when it is asked for. `FileError` when the file has changed meanwhile."""
    yield manifest.to_data(holder)
    for first in range(0, manifest.pieces, HASHES_A_MESSAGE):
        yield {_HASHES: [manifest.id, first, hashes.part(first)]}
    for index in range(first_piece, manifest.pieces):
        yield {_PIECE: [manifest.id, index, file.read_checked(index, hashes)]}


def fragment_in(data: Any) -> Piece | PieceHashes | None:
    """What an event's data carries of a file, besides its manifest; None when it carries nothing."""
    if not isinstance(data, dict) or len(data) != 1:
        return None
    ((key, parts),) = data.items()
    kinds: dict[Any, type[Piece] | type[PieceHashes]] = {_PIECE: Piece, _HASHES: PieceHashes}
    if key not in kinds or not isinstance(parts, list):
        return None
    if [type(part) for part in parts] != [bytes, int, bytes]:
        return None
    return kinds[key](*parts)


class SendingRecord:
    """How much of a file is safe at the archives of a topic, kept in `NAME.sending` beside the file.

    A sender that was interrupted goes on from there. The record is a convenience and not a promise: where it
    cannot be written, or is lost, pieces are sent once more, and receivers take each piece once."""

    def __init__(self, path: Path, manifest: Manifest, topic: str) -> None:
        self._path = path.with_name(f"{path.name}.sending")
        self._sending = {"file": manifest.id.hex(), "topic": topic}
        self.safe = self._read(manifest)
        """The pieces before this one are safe."""
        self._written = self.safe

    def advance(self, safe: int) -> bool:
        """The first `safe` pieces are safe now; whether it is time to write that down."""
        self.safe = safe
        return safe >= self._written + WRITE_EVERY

    def write(self) -> None:
        self._written = self.safe
        draft = self._path.with_name(f"{self._path.name}.draft")
        with suppress(OSError):
            draft.write_text(json.dumps({**self._sending, "safe": self.safe}))
            os.replace(draft, self._path)

    def remove(self) -> None:
        """All of it is safe."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _read(self, manifest: Manifest) -> int:
        """What an earlier sender of the same content to the same topic wrote; 0 if that is of no use."""
        try:
            kept = json.loads(self._path.read_text())
            safe = kept.pop("safe")
        except (OSError, ValueError, AttributeError, KeyError):
            return 0
        is_ours = kept == self._sending and type(safe) is int and 0 <= safe <= manifest.pieces
        return safe if is_ours else 0
