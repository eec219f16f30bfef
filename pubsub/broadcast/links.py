"""What every stack stands on: links, best-effort broadcast over them, and the perfect failure detector.

Links between two processes (the tutorial's section 4): perfect ones, and unreliable ones.

Perfect links are acknowledged channels: what a correct process sends to a correct process arrives, once.
Unreliable links are datagrams: what is sent may be lost, repeated or overtaken.
"""

from __future__ import annotations

from overlay.context import Context
from pubsub.broadcast.events import (
    Broadcast,
    Crash,
    Deliver,
    GroupPacket,
    LayerMessage,
    MemberFound,
    Receive,
    Send,
    StartDetector,
)
from pubsub.broadcast.kernel import Layer, LayerChannel, LayerEvent, LayerSession
from pubsub.broadcast.process import GroupProcess

MOST_WAITING = 10_000
"""Messages that wait for a member whose contact is not known yet; more are dropped and counted."""


class _Links(LayerSession):
    def __init__(self, process: GroupProcess, perfect: bool) -> None:
        super().__init__(process)
        self._perfect = perfect
        self._waiting: dict[int, list[GroupPacket]] = {}
        self._last: tuple[LayerMessage | None, str, GroupPacket | None] = (None, "", None)

    @property
    def _context(self) -> Context:
        return self.process.perfect if self._perfect else self.process.unreliable

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
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

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, MemberFound):
            contact = self.process.members[event.rank]
            assert contact is not None
            for packet in self._waiting.pop(event.rank, ()):
                self._context.send(contact, packet)
        channel.up(self, event)

    def _packet(self, channel: str, message: LayerMessage) -> GroupPacket:
        """The packet of a message; the same one for all members that it goes to in turn, encoded once."""
        last, name, packet = self._last
        if packet is None or last is not message or name != channel:
            packet = GroupPacket(channel, message.headers, message.data)
            self._last = (message, channel, packet)
        return packet


class PerfectLinks(Layer):
    """Acknowledged channels; messages for members not met yet wait until they are."""

    name = "perfect links"
    provides = ("perfect links", "links")

    def session(self, process: GroupProcess) -> LayerSession:
        return _Links(process, perfect=True)


class UnreliableLinks(Layer):
    """Plain datagrams."""

    name = "unreliable links"
    provides = ("unreliable links", "links")

    def session(self, process: GroupProcess) -> LayerSession:
        return _Links(process, perfect=False)


class BestEffort(Layer):
    """Best-effort broadcast (the tutorial's section 5, figure 1): a copy over the link to each member.

    While the sender is correct, every correct member delivers the message, once. When the sender crashes
    between two copies, some members deliver it and others do not. N - 1 messages, one message delay.
    """

    name = "beb"
    requires = ("perfect links",)
    provides = ("broadcast", "best-effort broadcast")

    def session(self, process: GroupProcess) -> LayerSession:
        return BestEffortSession(process)


class BestEffortSession(LayerSession):
    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if not isinstance(event, Broadcast):
            channel.down(self, event)
            return
        for rank in range(self.process.size):
            if rank != self.process.rank:
                channel.down(self, Send(rank, event.message))
        channel.up(self, Deliver(self.process.rank, event.message))

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Receive):
            event = Deliver(event.source, event.message)
        channel.up(self, event)


class PerfectDetector(Layer):
    """The perfect failure detector as a layer (the tutorial's section 6).

    Once `StartDetector` has come down, a `Crash` goes up, once, for each member that has crashed. Strong
    completeness and strong accuracy are those of what the process was given as `watch`: the strict mode of
    `overlay.failure` has them as long as its timing assumptions hold. It must not be started before every
    process of the group runs, or it takes those that do not for crashed.
    """

    name = "pfd"
    requires = ("links",)
    provides = ("perfect failure detector",)

    def session(self, process: GroupProcess) -> LayerSession:
        return PerfectDetectorSession(process)


class PerfectDetectorSession(LayerSession):
    def __init__(self, process: GroupProcess) -> None:
        super().__init__(process)
        self.crashed: dict[int, None] = {}
        self._channels: list[LayerChannel] = []
        self._started = False

    def opened(self, channel: LayerChannel) -> None:
        self._channels.append(channel)
        for rank in self.crashed:
            channel.up(self, Crash(rank))

    def closed(self, channel: LayerChannel) -> None:
        self._channels.remove(channel)

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, StartDetector) and not self._started:
            self._started = True
            self.process.watch(self._crashed)
        channel.down(self, event)

    def _crashed(self, rank: int) -> None:
        if rank != self.process.rank and rank not in self.crashed:
            self.crashed[rank] = None
            for channel in self._channels:
                channel.up(self, Crash(rank))
