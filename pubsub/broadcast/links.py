"""Links between two processes (the tutorial's section 4): perfect ones, and unreliable ones.

Perfect links are acknowledged channels: what a correct process sends to a correct process arrives, once.
Unreliable links are datagrams: what is sent may be lost, repeated or overtaken.
"""

from __future__ import annotations

from overlay.context import Context
from pubsub.broadcast.events import MemberFound, Send
from pubsub.broadcast.kernel import Channel, Event, Layer, Session
from pubsub.broadcast.message import Message, Packet
from pubsub.broadcast.process import Process

MOST_WAITING = 10_000
"""Messages that wait for a member whose contact is not known yet; more are dropped and counted."""


class _Links(Session):
    def __init__(self, process: Process, perfect: bool) -> None:
        super().__init__(process)
        self._perfect = perfect
        self._waiting: dict[int, list[Packet]] = {}
        self._last: tuple[Message | None, str, Packet | None] = (None, "", None)

    @property
    def _context(self) -> Context:
        return self.process.perfect if self._perfect else self.process.unreliable

    def on_down(self, channel: Channel, event: Event) -> None:
        if not isinstance(event, Send):
            channel.down(self, event)
            return
        packet = self._packet(channel.name, event.message)
        contact = self.process.members[event.to]
        if contact is not None:
            self._context.send(contact, packet)
        elif self._perfect and len(self._waiting.setdefault(event.to, [])) < MOST_WAITING:
            self._waiting[event.to].append(packet)
        else:
            self.process.count("member_not_found")

    def on_up(self, channel: Channel, event: Event) -> None:
        if isinstance(event, MemberFound):
            contact = self.process.members[event.rank]
            assert contact is not None
            for packet in self._waiting.pop(event.rank, ()):
                self._context.send(contact, packet)
        channel.up(self, event)

    def _packet(self, channel: str, message: Message) -> Packet:
        """The packet of a message; the same one for all members that it goes to in turn, encoded once."""
        last, name, packet = self._last
        if packet is None or last is not message or name != channel:
            packet = Packet(channel, message.headers, message.data)
            self._last = (message, channel, packet)
        return packet


class PerfectLinks(Layer):
    """Acknowledged channels; messages for members not met yet wait until they are."""

    name = "perfect links"
    provides = ("perfect links", "links")

    def session(self, process: Process) -> Session:
        return _Links(process, perfect=True)


class UnreliableLinks(Layer):
    """Plain datagrams."""

    name = "unreliable links"
    provides = ("unreliable links", "links")

    def session(self, process: Process) -> Session:
        return _Links(process, perfect=False)
