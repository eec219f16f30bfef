"""What durable delivery may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.errors import CamcastError, NetworkError, UsageError

if TYPE_CHECKING:
    from pubsub.publishing import Receipt


class ArchiveError(CamcastError):
    """The archive cannot do this, or cannot go on; the text says why."""


class StoreError(CamcastError):
    """The store cannot be read or written; whatever was not synced must be taken for lost."""


class DurableUsageError(UsageError):
    """Durable delivery was asked for in a way that cannot work."""


class Displaced(ArchiveError):
    """Another subscriber has taken this durable name over: it gets the name's events from here on."""

    def __init__(self, text: str, word: str = "") -> None:
        super().__init__(text)
        self.word = word
        """Of the one that has the name now, where that has left one: see `DurableSubscription.take_over`."""


class NoArchiveFound(NetworkError):
    """No archive that manages the topic has answered."""


class NoRoom(NetworkError):
    """As many events as a publisher keeps wait to become safe: this one was not published."""


class NotSafe(NetworkError):
    """An event was published and is not known to be safe: it may still become so."""

    def __init__(self, text: str, receipt: Receipt) -> None:
        super().__init__(text)
        self.receipt = receipt
        """To go on waiting: `await error.receipt.durable.wait_safe()`."""
