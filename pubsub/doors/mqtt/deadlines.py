"""Clients that are late: silent for too long, or with a packet that does not come whole. All connections of a
door have one timer, since there are very many."""

from __future__ import annotations

import math
from typing import Protocol

from overlay.context import Timer
from pubsub.doors.mqtt.network import MqttConfig
from pubsub.doors.mqtt.other_doors import Clock
from pubsub.doors.mqtt.packets import MqttError, Reason

STEP_SECONDS = 0.5
"""A connection is looked at this much late at most."""


class Watched(Protocol):
    """A connection, as it is seen here."""

    deadline: int
    """The step at which it is looked at; 0 for none. Kept by `Deadlines`."""

    def overdue(self) -> None: ...


class Deadlines:
    """A core: connections by the step of the clock at which they are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps: dict[int, dict[Watched, None]] = {}
        self._timer: Timer | None = None
        self._next = 0
        """The step that the timer is set for."""

    def set(self, connection: Watched, delay: float) -> None:
        """Look at a connection after this many seconds, in place of when it was due before."""
        self.cancel(connection)
        step = max(1, math.ceil((self._clock.now() + delay) / STEP_SECONDS))
        connection.deadline = step
        self._steps.setdefault(step, {})[connection] = None
        if self._timer is None or step < self._next:
            self._arm(step)

    def cancel(self, connection: Watched) -> None:
        due = self._steps.get(connection.deadline)
        connection.deadline = 0
        if due is not None:
            due.pop(connection, None)

    def _arm(self, step: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = step
        delay = step * STEP_SECONDS - self._clock.now()
        self._timer = self._clock.call_later(max(0.0, delay), self._look)

    def _look(self) -> None:
        self._timer = None
        due = self._steps.pop(self._next, {})
        for connection in list(due):
            if connection in due:  # it may have ended, because of one before it
                connection.deadline = 0
                connection.overdue()
        if self._steps and self._timer is None:
            self._arm(min(self._steps))


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
