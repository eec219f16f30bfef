"""What is published at a group of distributors goes up to the group above it (section 2), once.

The distributor that a publisher is connected to raises its messages at once, under the publisher's own
numbers. Whatever is above comes back down in the subscription to the group above: that is how every
distributor of the group knows what has arrived. What has not come back for a while, the others raise too,
the most senior first. Until then nobody lets it go. So a message goes up while one distributor of the group
that has it stays up; the group above drops what it has already. A group above that does not take messages
from here says so, and then nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.contact import Contact
from overlay.context import Context
from pubsub.distributors.messages import PublicationAck, Raise, ServiceBlock
from pubsub.distributors.protocol.service import Key, Service

RAISED_AT_ONCE = 64
RAISED_BYTES = 128 * 1024
"""Messages of a source that go up together, unless one alone is larger."""

ASK_AGAIN = 30.0
"""Seconds after which a group above that took nothing is tried again."""

ALL = 1 << 62

PATIENCE = 3.0
"""Seconds that each distributor leaves to the publisher's own one, and to those before it in the view."""


class RaisingUp:
    """One distributor's part in raising messages to the group above. `context` may lose what it sends."""

    def __init__(
        self,
        context: Context,
        services: dict[str, Service],
        above: Callable[[str], Contact | None],
        rank: Callable[[], int],
    ) -> None:
        """`above`: the distributor of the group above that serves this one, by service. `rank`: the place of
        this one in its view."""
        self._context = context
        self._services = services
        self._above = above
        self._rank = rank
        self._arrived: dict[Key, int] = {}
        """By service and source, the number up to which the group above has everything."""
        self._refused_at: float | None = None
        """When the group above said last that it takes nothing from here."""
        self._pending: dict[Key, float] = {}
        """Since when something has not arrived there."""

    def arrived(self, service: str, source: bytes, number: int) -> None:
        """The group above has a source's messages up to this number, or will never have them."""
        key = (service, source)
        if number > self._arrived.get(key, 0):
            self._arrived[key] = number
            self._pending.pop(key, None)

    def arrived_to(self, service: str, source: bytes) -> int:
        return self._arrived.get((service, source), 0)

    def needed_after(self, service: str, source: bytes) -> int:
        """The number up to which messages need not be kept for the group above."""
        return ALL if self.is_refused else self.arrived_to(service, source)

    @property
    def is_refused(self) -> bool:
        at = self._refused_at
        return at is not None and self._context.now() - at < ASK_AGAIN

    def forget(self, key: Key) -> None:
        self._arrived.pop(key, None)
        self._pending.pop(key, None)

    def forget_service(self, name: str) -> None:
        """The service is gone, and all of its sources."""
        for key in [key for key in (*self._arrived, *self._pending) if key[0] == name]:
            self.forget(key)

    def brought(self, blocks: Sequence[ServiceBlock]) -> None:
        """A publisher has brought new blocks."""
        if self.is_refused:
            return
        for service, source in dict.fromkeys((one.service, one.source) for one in blocks):
            if self._services[service].is_relayed:
                self._raise(self._services[service], source)

    def tick(self) -> None:
        """Raise what has not arrived, if it is this one's turn."""
        if self.is_refused:
            return
        now = self._context.now()
        patience = PATIENCE * (1 + self._rank())
        for service in self._services.values():
            if not service.is_relayed:
                continue
            for source, state in service.log.sources.items():
                key = (service.name, source)
                if state.high <= self._arrived.get(key, 0):
                    self._pending.pop(key, None)
                    continue
                since = self._pending.setdefault(key, now)
                if source in service.publishers or now - since >= patience:
                    self._raise(service, source)

    def _raise(self, service: Service, source: bytes) -> None:
        above, state = self._above(service.name), service.log.sources.get(source)
        if above is None or state is None:
            return
        first = max(self.arrived_to(service.name, source) + 1, state.low)
        last = min(state.high, first + RAISED_AT_ONCE - 1)
        block = service.log.block(source, first, last, RAISED_BYTES)
        if block is not None:
            self._context.send(above, Raise(block))

    def receive_published(self, sender: Contact, published: PublicationAck) -> None:
        """The group above has taken something."""
        above = self._above(published.service)
        service = self._services.get(published.service)
        if above is None or above.id != sender.id or service is None:
            return
        if published.received < 0:
            self._refused_at = self._context.now()
            return
        self._refused_at = None
        state = service.log.sources.get(published.source)
        if state is not None:
            before = self.arrived_to(published.service, published.source)
            self.arrived(published.service, published.source, min(published.received, state.high))
            if before < self.arrived_to(published.service, published.source) < state.high:
                self._raise(service, published.source)
