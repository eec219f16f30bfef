"""A node's own events: numbered, encoded and signed as they are published."""

from __future__ import annotations

from overlay.contact import PeerId
from overlay.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity
from overlay.wire import encode
from pubsub.event import ID_BYTES, Copies, DataError, EventBody, Gossip, NewEvent, pack_body
from pubsub.signing import sign_body
from pubsub.topic import Topic

_LARGEST_SEQUENCE = 2**63 - 1

_LONGER_HEADS = 6
"""What says how long the data and the body are is so much longer for long ones than for none."""


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

    def check_fits(self, topic: Topic, packed: bytes, room: int) -> None:
        """`DataError` unless an event of this data travels in one message of `room` bytes, all the way up."""
        if len(packed) > (limit := self._data_limit(topic, room)):
            raise DataError(
                f"the data has {len(packed)} bytes as msgpack, and one datagram of this node takes {limit} "
                f'in an event of {topic}: use links="channel", or a larger datagram_size'
            )

    def _data_limit(self, topic: Topic, room: int) -> int:
        names = (topic.name, *topic.lineage)
        longest = max(names, key=lambda name: len(name.encode()))
        largest = EventBody(
            bytes(ID_BYTES),
            topic.name,
            topic.lineage,
            self._publisher,
            _LARGEST_SEQUENCE,
            1.0,
            b"",
            True,
        )
        signature = b"" if self._signer is None else bytes(PUBLIC_KEY_BYTES + SIGNATURE_BYTES)
        alone = Copies.of(
            [Gossip(bytes(ID_BYTES), longest, 0, True, pack_body(largest), signature)]
        )
        return max(room - len(encode(alone)) - _LONGER_HEADS, 0)
