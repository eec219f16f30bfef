"""Best-effort broadcast (the tutorial's section 5, figure 1): a copy over the link to each member.

While the sender is correct, every correct member delivers the message, once. When the sender crashes
between two copies, some members deliver it and others do not. N - 1 messages, one message delay.
"""

from __future__ import annotations

from pubsub.broadcast.events import Broadcast, Deliver, Receive, Send
from pubsub.broadcast.kernel import Channel, Event, Layer, Session
from pubsub.broadcast.process import Process


class BestEffort(Layer):
    name = "beb"
    requires = ("perfect links",)
    provides = ("broadcast", "best-effort broadcast")

    def session(self, process: Process) -> Session:
        return BestEffortSession(process)


class BestEffortSession(Session):
    def on_down(self, channel: Channel, event: Event) -> None:
        if not isinstance(event, Broadcast):
            channel.down(self, event)
            return
        for rank in range(self.process.size):
            if rank != self.process.rank:
                channel.down(self, Send(rank, event.message))
        channel.up(self, Deliver(self.process.rank, event.message))

    def on_up(self, channel: Channel, event: Event) -> None:
        if isinstance(event, Receive):
            event = Deliver(event.source, event.message)
        channel.up(self, event)
