"""What a channel carries: the application's data under the headers that the layers put on and take off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overlay.wire import Data, message
from pubsub.broadcast.kernel import BadMessage

Header = tuple[int, ...]
"""Small numbers: kinds, ranks, sequence numbers, vectors."""


@dataclass(frozen=True, slots=True)
class Message:
    """Data under a stack of headers; immutable, so that copies may share it."""

    data: Any
    headers: tuple[Header, ...] = ()

    def push(self, *header: int) -> Message:
        """This message with one more header."""
        return Message(self.data, (*self.headers, header))

    def pop(self, least: int) -> tuple[Header, Message]:
        """The last header, of at least so many numbers, none negative, and the message without it."""
        if not self.headers or len(self.headers[-1]) < least or min(self.headers[-1]) < 0:
            raise BadMessage("bad_header")
        return self.headers[-1], Message(self.data, self.headers[:-1])


@message(0x50)
@dataclass(frozen=True)
class Packet:
    """A message on its way between the same channels of two processes."""

    channel: str
    headers: tuple[tuple[int, ...], ...]
    data: Data
