"""What a participant of a topic may ask of the world: a core's context, with outcomes and watching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.contact import Contact
from overlay.context import Randomness, Timer

Outcome = Callable[[bool], None]
"""Called exactly once: True when the peer has the message, False when that will never be known."""


class TopicContext(Protocol):
    """The world of one participant. Nothing here blocks, or raises for reasons of the network."""

    @property
    def contact(self) -> Contact: ...

    @property
    def random(self) -> Randomness: ...

    def now(self) -> float: ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer: ...

    def send(self, to: Contact, message: object, outcome: Outcome | None = None) -> bool:
        """Send over the acknowledged channel: what is sent arrives once, in any order, unless a side crashes.

        False when the channel is full; `outcome` is called if and only if the result is True.
        """
        ...

    def send_datagram(self, to: Contact, message: object) -> None:
        """Send once; it may be lost, repeated or overtaken."""
        ...

    def watch(self, contact: Contact) -> None:
        """Have the failure detector watch the channel to a participant."""
        ...

    def unwatch(self, contact: Contact) -> None: ...
