"""What the directory needs of a node of the DHT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.steps import Cancellable


class Peers(Protocol):
    """What the directory needs of a node of the DHT. Nothing here raises for reasons of the network."""

    @property
    def context(self) -> Context: ...

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> Cancellable:
        """The `exact` live serving nodes closest to `key`, then others near it, up to `wide` in all."""
        ...

    def apart(
        self, key: PeerId, count: int, done: Callable[[list[list[Contact]]], None]
    ) -> Cancellable:
        """The `count` live nodes closest to `key` that each of several paths finds, which share no node."""
        ...

    def ask(
        self, to: Contact, request: object, done: Callable[[object | None], None]
    ) -> Cancellable:
        """The peer's reply, of whatever type it sent; None when none came, though asked repeatedly."""
        ...

    def known_closest(self, key: PeerId, count: int) -> tuple[Contact, ...]:
        """The nodes closest to `key` that this one knows, itself included if it serves; asks nobody."""
        ...

    def neighbours(self, count: int) -> tuple[Contact, ...]:
        """The nodes closest to this one that it has met or was told of, nearest first; asks nobody."""
        ...

    def token(self, to: Contact) -> bytes:
        """The last token that this process got from a node; empty if none. `around` brings new ones."""
        ...
