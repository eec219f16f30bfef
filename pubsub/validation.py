"""Validation: what a node asks of a block of events before it delivers or forwards it.

Where the network signs, a block has to be its publisher's own. Then the application's validators are asked,
those whose pattern matches the block's topic:

    def is_score(batch: Batch) -> bool:
        return all(isinstance(data, dict) and "score" in data for data in batch.data)

    Node(validators={"/soccer/**": is_score})

A validator is called once for each block that is new, however many events it holds, whether it came live,
from an archive, as an element of a strong collection or from a distributor, and on the event loop: it must be
quick and not block. What it refuses is neither delivered nor forwarded, nor kept by an archive on this node.
It is counted as `refused` under `events_dropped`, for collections under `collection_dropped`, for services
under `service_messages_dropped`. A validator that raises has refused; its exception is logged. A node does
not ask about its own events. A message of a service that no topic feeds counts as one of the topic
`/distributors/GROUP/NAME`.

A signature is the publisher's public key (32 bytes) and its Ed25519 signature (64 bytes) of the block's
bytes, just as they travel. The key proves the publisher's id (see `overlay.identity`), and the bytes hold all
that the publisher says: run and numbers, topic and its super-topics, and the events' data.

Where the network has an authority, the publisher's right follows (see `pubsub.rights`): to publish on the
topic and on every super-topic that the block declares. What comes without one is neither delivered nor
forwarded, and counted as `NO_RIGHT`. On the topic of revocations the contents decide, whoever publishes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from overlay.contact import PeerId
from overlay.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity, peer_id_of, verify
from pubsub.event import Batch, Block, Origin
from pubsub.rights import REVOCATIONS, Action, Authority
from pubsub.topic import Pattern, included

Validator = Callable[[Batch], bool]
"""Whether the events of a batch may be delivered and forwarded; `MALFORMED` stands for data that cannot be
read."""

REFUSED = "refused"
"""The reason under which refusals of validators are counted."""

NO_RIGHT = "no_right"
"""The reason for what its publisher may not publish, as far as this node knows: others may not have heard yet
that a right was taken back."""

_log = logging.getLogger(__name__)

SIGNATURE_SIZE = PUBLIC_KEY_BYTES + SIGNATURE_BYTES
"""Bytes of a block's signature."""


def sign_block(identity: Identity, encoded: bytes) -> bytes:
    return identity.public_key + identity.sign(encoded)


def is_signed_by_publisher(block: Block) -> bool:
    signature = block.signature[:SIGNATURE_SIZE]
    if len(signature) != SIGNATURE_SIZE:
        return False
    public_key = signature[:PUBLIC_KEY_BYTES]
    if peer_id_of(public_key) != block.publisher:
        return False
    return verify(public_key, block.encoded, signature[PUBLIC_KEY_BYTES:])


def has_right(block: Block, authority: Authority | None) -> bool:
    """Whether the publisher may publish on the block's topic and all super-topics that it declares."""
    right = block.signature[SIGNATURE_SIZE:]
    if authority is None:
        return not right
    if block.topic == REVOCATIONS:
        return not block.lineage and are_revocations(block, authority)
    topics = (block.topic, *(name for name in block.lineage if name != "/"))
    return all(authority.allows(right, block.publisher, Action.PUBLISH, topic) for topic in topics)


def are_revocations(block: Block, authority: Authority) -> bool:
    """Whether a block of the topic of revocations has nothing but valid ones, and some that are news; they
    work from then on."""
    batch, _ = block.batch(0, True)
    if not all(isinstance(data, bytes) and authority.take_back(data) for data in batch.data):
        return False
    return any(map(authority.is_news, batch.data))


class Validation:
    """What one node asks of every block that it did not publish itself."""

    def __init__(
        self,
        validators: Mapping[str, Validator],
        signed: bool,
        authority: Authority | None = None,
    ) -> None:
        """`signed`: whether the network signs; `authority`: whose rights count, None where all may."""
        self._authority = authority
        self._validators = [(Pattern.of(text), ask) for text, ask in validators.items()]
        self._signed = signed

    @property
    def asks_nothing(self) -> bool:
        return not self._signed and not self._validators

    def refusal(self, block: Block) -> str | None:
        """Why a block is refused; None for one that may be delivered and forwarded."""
        if self._signed and not is_signed_by_publisher(block):
            return "bad_signature"
        if self._signed and not has_right(block, self._authority):
            return NO_RIGHT
        if not self._validators:
            return None
        asked = self._asked(block.topic, block.lineage)
        if asked:
            batch, _ = block.batch(0, self._signed)
            if not all(_accepts(ask, batch) for ask in asked):
                return REFUSED
        return None

    def accepts(self, topic: str, publisher: PeerId, run: bytes, number: int, data: Any) -> bool:
        """Whether the validators accept one event that did not come in a block; nothing else is checked."""
        asked = self._asked(topic, ())
        batch = Batch(Origin(topic, publisher, run), number, [data])
        return all(_accepts(ask, batch) for ask in asked)

    def _asked(self, topic: str, lineage: tuple[str, ...]) -> list[Validator]:
        return [
            ask
            for pattern, ask in self._validators
            if included(pattern.topic.name, topic, lineage) and pattern.matches(topic)
        ]


def _accepts(ask: Validator, batch: Batch) -> bool:
    try:
        return bool(ask(batch))
    except Exception:
        _log.exception("a validator failed on events of %s: they are refused", batch.topic)
        return False
