"""A file as events: its manifest, the checksums of its pieces, and the pieces, each as an event's data.

So an archive keeps the whole file like anything else, and whoever was away gets it later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pubsub.files.manifest import Manifest
from pubsub.files.protocol.exchange import Storage, checked_piece
from pubsub.files.protocol.hash_list import HASHES_A_MESSAGE, HashList
from pubsub.files.protocol.messages import Piece, PieceHashes

_PIECE, _HASHES = "camcast-piece", "camcast-hashes"


def fragments_of(
    manifest: Manifest, hashes: HashList, storage: Storage, holder: bytes, first_piece: int = 0
) -> Iterator[dict[str, Any]]:
    """The data of the events that carry a file, in the order in which they are to be published.

    `first_piece`: the pieces before it are known to be safe. The manifest and the checksums are there all
    the same, for a piece is of no use before them, and who goes on may be another publisher.
    `FileError` when the file has changed meanwhile."""
    yield manifest.to_data(holder)
    for first in range(0, manifest.pieces, HASHES_A_MESSAGE):
        yield {_HASHES: [manifest.id, first, hashes.part(first)]}
    for index in range(first_piece, manifest.pieces):
        yield {_PIECE: [manifest.id, index, checked_piece(storage, manifest, hashes, index)]}


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
