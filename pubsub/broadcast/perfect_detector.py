"""The perfect failure detector as a layer (the tutorial's section 6).

Once `StartDetector` has come down, a `Crash` goes up, once, for each member that has crashed. Strong
completeness and strong accuracy are those of what the process was given as `watch`: the strict mode of
`overlay.failure` has them as long as its timing assumptions hold. It must not be started before every process
of the group runs, or it takes those that do not for crashed.
"""

from __future__ import annotations

from pubsub.broadcast.events import Crash, StartDetector
from pubsub.broadcast.kernel import Channel, Event, Layer, Session
from pubsub.broadcast.process import Process


class PerfectDetector(Layer):
    name = "pfd"
    requires = ("links",)
    provides = ("perfect failure detector",)

    def session(self, process: Process) -> Session:
        return PerfectDetectorSession(process)


class PerfectDetectorSession(Session):
    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.crashed: dict[int, None] = {}
        self._channels: list[Channel] = []
        self._started = False

    def opened(self, channel: Channel) -> None:
        self._channels.append(channel)
        for rank in self.crashed:
            channel.up(self, Crash(rank))

    def closed(self, channel: Channel) -> None:
        self._channels.remove(channel)

    def on_down(self, channel: Channel, event: Event) -> None:
        if isinstance(event, StartDetector) and not self._started:
            self._started = True
            self.process.watch(self._crashed)
        channel.down(self, event)

    def _crashed(self, rank: int) -> None:
        if rank != self.process.rank and rank not in self.crashed:
            self.crashed[rank] = None
            for channel in self._channels:
                channel.up(self, Crash(rank))
