"""Stacks distributors: those of one group take their services' messages from another group (section 2).

Each distributor of the lower group subscribes to the upper one, without gaps, as any subscriber does, and
puts what it gets into its own service under the number that the publisher gave it. What one of them misses it
gets from the others of its group. So any number of levels serve any number of subscribers, and order,
gaps and duplicates are the publisher's at each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pubsub.distributors.client import LightClient
from pubsub.distributors.messages import Publication
from pubsub.distributors.protocol.delivery import Delivery, Gap
from pubsub.distributors.protocol.distributor import DistributorCore


class Relay(LightClient):
    """A distributor's subscription to the services of the group above it."""

    def __init__(
        self, core: DistributorCore, services: Sequence[str], group: str, settings: dict[str, Any]
    ) -> None:
        super().__init__(group=group, **settings)
        self._core = core
        self._services = services

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for name in self._services:
            service = self._core.services[name]
            service.is_relayed = True
            self._subscription_core(
                name,
                no_gap=True,
                deliver=self._deliver,
                report=self._report,
                begun=lambda numbers, name=name: self._begin(name, numbers),
                room=lambda service=service: 0 if service.is_full else self.config.room,
            )
        return self

    def _begin(self, service: str, numbers: dict[bytes, int]) -> None:
        """What was published before this distributor came is not its own."""
        for source, number in numbers.items():
            self._core.relay_begin(service, source, number)

    def _deliver(self, delivery: Delivery) -> None:
        self._core.relay(
            Publication(delivery.service, delivery.source, delivery.sequence, delivery.data)
        )

    def _report(self, gap: Gap) -> None:
        self._core.relay_gap(gap.service, gap.source, gap.last)
