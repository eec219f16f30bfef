"""What a node of a network with an authority does about it: revocations, and keys of encrypted topics.

The node is in the topic of revocations for as long as it runs. It gives the keys of encrypted topics to
those with the right to subscribe, in networks with a key only: sessions prove who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import UsageError
from overlay.metrics import Metrics
from overlay.wire import WireError
from pubsub.attach import Attachment
from pubsub.camcast.process import Process
from pubsub.event import Event
from pubsub.gate import Gate
from pubsub.joined_topics import JoinedTopics
from pubsub.rights import REVOCATIONS, Action, RightError
from pubsub.topic import Topic

if TYPE_CHECKING:  # imported in networks with an authority and a key
    from pubsub.secrets import Secrets

E = TypeVar("E", bound=Event)


class Protection:
    """The rights and secrets of one node; without an authority everybody may do everything."""

    def __init__(
        self, attachment: Attachment, process: Process, topics: JoinedTopics, metrics: Metrics
    ) -> None:
        self._attachment = attachment
        self._gate = attachment.gate
        self.secrets: Secrets | None = None
        """The keys of encrypted topics, in a network with an authority and a key."""
        if self._gate is not None:
            self._hear_revocations(self._gate, process, topics)
            self._share_keys(self._gate, process, metrics)

    def stop(self) -> None:
        if self.secrets is not None:
            self.secrets.stop()

    def check(self, action: Action, topic: str) -> None:
        """`RightError` unless this node may do this on the topic."""
        if self._gate is not None:
            self._gate.own.check(action, topic)

    def take_back(self, revocation: bytes) -> None:
        """Honour a revocation; `RightError` when it is not valid in this network."""
        if self._gate is None or not self._gate.authority.take_back(revocation):
            raise RightError(
                "this is not a valid revocation in this network: who granted the right signs it"
            )

    def seal(self, topic: str, data: Any) -> Any:
        """The data for those with the right to subscribe to the topic."""
        return self._keys().seal(topic, data)

    async def opened(self, events: AsyncIterable[E]) -> AsyncIterator[E]:
        """See `Node.decrypted`."""
        secrets = self._keys()
        async for event in events:
            topic, publisher = event.topic, event.publisher
            if not secrets.is_known(topic, event.data):
                come = asyncio.Event()
                secrets.want(topic, publisher, event.data, come.set)
                await come.wait()
            try:
                event.data = secrets.open(topic, publisher, event.data)
            except WireError as error:
                secrets.count(error.reason)
            else:
                yield event

    def describe(self) -> dict[str, Any] | None:
        """The authority, what this node holds, what peers have shown and what was taken back; None without
        an authority."""
        if self._gate is None:
            return None
        return {
            "authority": [key.hex() for key in self._gate.authority.keys],
            **self._gate.describe(),
        }

    def _keys(self) -> Secrets:
        if self.secrets is None:
            raise UsageError(
                "encryption needs a network key and an authority (keys=, authority=): without them it is not "
                "known who may read"
            )
        return self.secrets

    def _hear_revocations(self, gate: Gate, process: Process, topics: JoinedTopics) -> None:
        """Be in the topic of revocations for good, and compare what is known with its members."""
        gate.authority.revocations_changed.append(process.rights_changed)
        joined = topics.join(Topic.of(REVOCATIONS))
        joined.always = True
        community = joined.community
        community.when_ready(lambda: gate.compare_with(lambda: community.table))

    def _share_keys(self, gate: Gate, process: Process, metrics: Metrics) -> None:
        """Give the keys of encrypted topics to those with the right; only sessions prove who asks."""
        runtime = self._attachment.runtime
        sessions = runtime.endpoint.sessions
        if sessions is None:
            return
        from pubsub.secrets import AskKey, GiveKey, Secrets, may_ask

        def peers(publisher: PeerId) -> list[Contact]:
            tables = [community.table for community in process.communities.values()]
            known = [peer for table in tables for peer in table]
            return [peer for peer in sessions.peers if peer.id == publisher] + known

        self.secrets = Secrets(
            self._attachment.control,
            entropy(),
            gate.authority.digest_revocations,
            peers,
            metrics,
        )
        runtime.on(AskKey, self.secrets.receive_ask)
        runtime.on(GiveKey, self.secrets.receive_key)
        gate.require({AskKey: may_ask})
