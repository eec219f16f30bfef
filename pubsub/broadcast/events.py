"""What travels in a channel: events, and the application's data under the headers that the layers put on and
take off. A layer that needs more events adds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overlay.wire import Data, message
from pubsub.broadcast.kernel import BadMessage, LayerEvent

Header = tuple[int, ...]
"""Small numbers: kinds, ranks, sequence numbers, vectors."""


@dataclass(frozen=True, slots=True)
class LayerMessage:
    """Data under a stack of headers; immutable, so that copies may share it."""

    data: Any
    headers: tuple[Header, ...] = ()

    def push(self, *header: int) -> LayerMessage:
        """This message with one more header."""
        return LayerMessage(self.data, (*self.headers, header))

    def pop(self, least: int) -> tuple[Header, LayerMessage]:
        """The last header, of at least `least` numbers, none negative, and the message without it."""
        if not self.headers or len(self.headers[-1]) < least or min(self.headers[-1]) < 0:
            raise BadMessage("bad_header")
        return self.headers[-1], LayerMessage(self.data, self.headers[:-1])


@message(0x50)
class GroupPacket:
    """A message on its way between the same channels of two processes."""

    channel: str
    headers: tuple[tuple[int, ...], ...]
    data: Data


@dataclass(frozen=True, slots=True)
class Broadcast(LayerEvent):
    """Down: to every member of the group, this one included."""

    message: LayerMessage


@dataclass(frozen=True, slots=True)
class Deliver(LayerEvent):
    """Up: what the member of rank `source` broadcast, as the layer below sees it."""

    source: int
    message: LayerMessage
    number: int = 0
    """Of this broadcast among those of `source`, from 1, where the layer counts them; else 0."""


@dataclass(frozen=True, slots=True)
class Send(LayerEvent):
    """Down: to one other member."""

    to: int
    message: LayerMessage


@dataclass(frozen=True, slots=True)
class Receive(LayerEvent):
    """Up: from one other member."""

    source: int
    message: LayerMessage


@dataclass(frozen=True, slots=True)
class StartDetector(LayerEvent):
    """Down: every process of the group runs, so from now on silence means a crash."""


@dataclass(frozen=True, slots=True)
class Crash(LayerEvent):
    """Up: this member has crashed, and never comes back."""

    rank: int


@dataclass(frozen=True, slots=True)
class MemberFound(LayerEvent):
    """Up, from the links: the address of this member has become known."""

    rank: int


@dataclass(frozen=True, slots=True)
class Finished(LayerEvent):
    """Down: the application is done with a message, and does not want it again after a restart."""

    source: int
    number: int
