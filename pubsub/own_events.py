"""A node's own events: numbered, encoded and signed as they are published."""

from __future__ import annotations

from overlay.contact import PeerId
from overlay.identity import Identity
from pubsub.event import EventBody, Gossip, NewEvent, pack_body
from pubsub.signing import sign_body
from pubsub.topic import Topic


class OwnEvents:
    """Makes the events of one run of a node.

    An event's id is never used twice, and the events of a topic are numbered from 1 without a gap, through
    however many stays in its community: subscribers in order take a number that comes again for old."""

    def __init__(self, run: bytes, publisher: PeerId, signer: Identity | None) -> None:
        """`run`: the first half of the events' ids; `signer`: who signs them, None leaves them unsigned."""
        self._run = run
        self._publisher = publisher
        self._signer = signer
        self._made = 0
        self._sequences: dict[str, int] = {}

    def make(self, topic: Topic, packed: bytes, upward: float | None, eager: bool) -> NewEvent:
        """The next event of the topic, of data that is packed already."""
        self._made += 1
        name = topic.name
        sequence = self._sequences[name] = self._sequences.get(name, 0) + 1
        event_id = self._run + self._made.to_bytes(8, "big")
        body = EventBody(
            event_id, name, topic.lineage, self._publisher, sequence, upward, packed, eager
        )
        encoded = pack_body(body)
        signature = b"" if self._signer is None else sign_body(self._signer, encoded)
        return Gossip(event_id, name, 0, False, encoded, signature), body
