"""Strong topics of whole nodes on the virtual network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlay.contact import Contact
from overlay.failure import FailureConfig
from overlay.identity import Identity
from overlay.overlay import Overlay
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Network, nth_host
from pubsub.topics import Delivery, StrongTopic, StrongTopics

TOPIC = "/EPFL/DSC"


class StrongNode:
    """A runtime with its strong topics, at a host of its own; it dies with the host."""

    def __init__(self, number: int, identity: Identity) -> None:
        self.number = number
        self.host = nth_host(number)
        self.identity = identity
        self.delivered: list[Delivery] = []
        self.runtime: Runtime
        self.topics: StrongTopics
        self.strong: StrongTopic

    async def open(
        self, directory_at: str | None, known: tuple[Contact, ...], settings: dict[str, Any]
    ) -> None:
        config = RuntimeConfig(
            EndpointConfig(f"{self.host}:4000"), failure=FailureConfig(interval=1.0)
        )
        self.runtime = await Runtime.open(config, self.identity)
        directory = None
        if directory_at is not None:
            self.overlay = Overlay.on(self.runtime.endpoint, [directory_at] if directory_at else [])
            await self.overlay.__aenter__()
            directory = self.overlay.service
        self.topics = StrongTopics(self.runtime, directory)
        settings.setdefault("on_deliver", self.delivered.append)
        on_deliver: Callable[[Delivery], Any] = settings.pop("on_deliver")
        self.strong = await self.topics.join(TOPIC, on_deliver, known=known, **settings)

    @property
    def payloads(self) -> list[bytes]:
        return [delivery.payload for delivery in self.delivered]


class StrongNodes:
    """Starts nodes one after another; each subscribes through the first, or the directory."""

    def __init__(self, network: Network, *, directory: bool = False) -> None:
        self.network = network
        self.nodes: list[StrongNode] = []
        self._directory = directory

    async def start(self, **settings: Any) -> StrongNode:
        node = StrongNode(len(self.nodes), Identity(bytes([len(self.nodes)]) * 32))
        self.nodes.append(node)
        await self._open(node, settings)
        return node

    async def restart(self, node: StrongNode, **settings: Any) -> StrongNode:
        """Begin anew on the host of a crashed node, under the same identity."""
        self.network.restart(node.host)
        again = StrongNode(node.number, node.identity)
        self.nodes[node.number] = again
        await self._open(again, settings)
        return again

    async def _open(self, node: StrongNode, settings: dict[str, Any]) -> None:
        others = [other for other in self.nodes if other is not node and hasattr(other, "strong")]
        directory_at = None
        if self._directory:
            directory_at = f"{others[0].host}:4000" if others else ""
        known = () if self._directory else tuple(other.runtime.contact for other in others[:1])
        await self.network.spawn(node.host, node.open(directory_at, known, settings))


def log_of(folder: Path, number: int) -> Path:
    return folder / f"participant-{number}.sqlite"
