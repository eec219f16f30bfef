"""What a participant of a topic may ask of the world: a core's context, with outcomes and watching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.contact import Contact
from overlay.context import Context

Outcome = Callable[[bool], None]
"""Called exactly once: True when the peer has the message, False when that will never be known."""


class TopicContext(Context, Protocol):
    """The world of one participant. What it sends over the acknowledged channel arrives once, in any order,
    unless a side crashes."""

    def try_send(self, to: Contact, message: object, outcome: Outcome) -> bool:
        """Send over the channel. False when it is full, and `outcome` is not called then."""
        ...

    def send_datagram(self, to: Contact, message: object) -> object:
        """Send once; it may be lost, repeated or overtaken."""
        ...

    def watch(self, contact: Contact) -> None:
        """Have the failure detector watch the channel to a participant."""
        ...

    def unwatch(self, contact: Contact) -> None: ...
