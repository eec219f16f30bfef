"""Packets that have not come whole: bounded in bytes and in time, however many clients dawdle."""

from __future__ import annotations

from typing import Protocol

from overlay.context import Timer
from pubsub.doors.mqtt.network import MqttConfig
from pubsub.doors.mqtt.other_doors import Clock
from pubsub.doors.mqtt.packets import MqttError, Reason


class Dawdler(Protocol):
    """A connection, as it is seen here."""

    def fail(self, error: MqttError) -> None: ...


class Partials:
    """Packets that have not come whole: bounded in bytes and in time, however many clients dawdle."""

    def __init__(self, clock: Clock, config: MqttConfig) -> None:
        self._clock = clock
        self._config = config
        self._began: dict[Dawdler, tuple[float, int]] = {}
        """When each began, and its bytes; the one that began first is the first."""
        self._timer: Timer | None = None
        self.bytes = 0

    def note(self, connection: Dawdler, waiting: int) -> None:
        """This many bytes of a connection wait for the rest of their packet."""
        known = self._began.get(connection)
        self.bytes += waiting - (0 if known is None else known[1])
        if not waiting:
            self._began.pop(connection, None)
            return
        self._began[connection] = (self._clock.now() if known is None else known[0], waiting)
        while self.bytes > self._config.most_partial:
            self._disconnect(Reason.QUOTA_EXCEEDED)
        if self._timer is None:
            self._timer = self._clock.call_later(self._config.packet_seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        ended = self._clock.now() - self._config.packet_seconds
        while self._began and next(iter(self._began.values()))[0] <= ended:
            self._disconnect(Reason.KEEP_ALIVE_TIMEOUT)
        for began, _ in self._began.values():
            # A delay that rounding makes next to nothing would be asked for again and again.
            least = self._config.packet_seconds / 100
            self._timer = self._clock.call_later(max(began - ended, least), self._look)
            return

    def _disconnect(self, reason: Reason) -> None:
        next(iter(self._began)).fail(MqttError(reason, "a packet takes too long to come whole"))
