"""What the directory needs of a DHT: a port, so that its logic runs on real nodes and on modelled ones."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from overlay.contact import Contact, PeerId
from overlay.context import Randomness

T = TypeVar("T")


class Peers(Protocol):
    """The DHT as one process sees it. None of the methods raises for reasons of the network."""

    @property
    def contact(self) -> Contact:
        """This process, as others know it."""
        ...

    @property
    def random(self) -> Randomness: ...

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def closest(self, key: PeerId, count: int) -> Sequence[Contact]:
        """The live serving nodes closest to `key`, closest first; this one too if it serves."""
        ...

    async def around(self, key: PeerId, exact: int, wide: int) -> Sequence[Contact]:
        """The `exact` live serving nodes closest to `key`, then others near it, up to `wide` in all."""
        ...

    def token(self, to: Contact) -> bytes:
        """The last token that this process got from a node; empty if none. `closest` brings new ones."""
        ...

    async def ask(self, to: Contact, request: object) -> object | None:
        """The peer's reply, of whatever type it sent; None when none came, though asked repeatedly."""
        ...

    async def together(self, calls: Sequence[Awaitable[T]]) -> list[T]:
        """Await all calls at the same time; the results in the order of the calls."""
        ...
