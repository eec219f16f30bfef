"""What an endpoint needs of whatever carries its datagrams: another one than UDP is one more file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from overlay.contact import Address
from overlay.metrics import Metrics
from overlay.transport.guard import Refusal

Receive = Callable[[bytes, tuple[Any, ...]], None]
"""Takes a datagram, or a train of them, and the address that it came from."""


class Transport(Protocol):
    """What carries datagrams between sockets; made by an `OpenTransport`.

    It may lose, repeat and reorder datagrams, and never blocks or raises for reasons of the network.
    """

    address: Address
    """Where it is bound, with the port that was chosen for port 0."""

    train: int
    """Datagrams that one call of `send` takes, 1 or more; it may become 1 at any time."""

    @property
    def can_send(self) -> bool:
        """Whether more can be sent just now; `resume` is called when that becomes true again."""
        ...

    def send(self, data: bytes, to: tuple[str, int], /) -> None:
        """Send a datagram, or at most `train` of them one behind the other, all but the last of full size."""
        ...

    def refuse(self, refusal: Refusal | None) -> bool:
        """Drop a flood before it is received, or nothing any more; False where that is not possible."""
        ...

    async def close(self) -> None:
        """Let go of everything; returns when it is gone."""
        ...


class OpenTransport(Protocol):
    """Binds a transport to an address, or raises `ListenError`."""

    async def __call__(
        self,
        address: Address,
        size: int,
        receive: Receive,
        resume: Callable[[], None],
        metrics: Metrics,
        offload: bool,
    ) -> Transport:
        """`size`: bytes of a full datagram. `receive(data, source)` is given each datagram, or a train."""
        ...
