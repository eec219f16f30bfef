"""Who publishes: one run of one publisher. A publisher that crashes and comes back is another source."""

from __future__ import annotations

from overlay.contact import ID_BYTES, PeerId

RUN_BYTES = 4
SOURCE_BYTES = ID_BYTES + RUN_BYTES


def make_source(publisher: PeerId, run: bytes) -> bytes:
    """The source of a publisher's run, which four random bytes tell from its other runs."""
    return bytes(publisher) + run[:RUN_BYTES]


def publisher_of(source: bytes) -> PeerId:
    return PeerId(source[:ID_BYTES])


def is_source(source: bytes) -> bool:
    return len(source) == SOURCE_BYTES
