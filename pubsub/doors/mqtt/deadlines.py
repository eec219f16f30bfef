"""When connections are to be looked at: one timer for all of them, since there are very many."""

from __future__ import annotations

import math
from typing import Protocol

from overlay.context import Timer
from pubsub.doors.mqtt.other_doors import Clock

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
