"""A node's turns of the event loop: its timers, and the one place that gathers what leaves together.

Whatever is caused within one turn of the loop leaves at its end, in one callback and in this order: the
actions that layers above registered (a block of events is closed and handed to its channels), then the
channels that have something to send, then the endpoint's datagrams.

    runtime.turn.before_flush(self._close_block)    # runs once, however often it is asked for in this turn
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")
Action = Callable[[], None]
Flush = Callable[[], bool]


class Turn:
    """All callbacks of one node: its timers, and what it does at the end of a turn before things leave.

    Callbacks run in the context in which the node was opened, and not in that of the caller who caused them:
    nothing that a caller keeps in context variables (a request's trace, a locale) goes on living in the node.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self.now: Callable[[], float] = self._loop.time
        """Seconds on the loop's clock."""
        self._actions: dict[Action, None] = {}
        self._flushes: list[Flush] = []
        self.is_due = False
        """Whether something is to leave in this turn."""

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call `callback(*args)` in the next turn of the loop."""
        self._loop.call_soon(callback, *args, context=self._context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts
    ) -> asyncio.TimerHandle:
        """Call `callback(*args)` when the loop's clock shows `when`."""
        return self._loop.call_at(when, callback, *args, context=self._context)

    def before_flush(self, action: Action) -> None:
        """Run `action()` once at the end of this turn; what it sends leaves in the same turn.

        While actions run, a new one is still run in this turn, and one that has run waits for the next turn.
        An exception of an action goes to the loop's exception handler; the others run, and all is sent.
        """
        self._actions[action] = None
        if not self.is_due:
            self.is_due = True
            self._loop.call_soon(self._end, context=self._context)

    def then(self, flush: Flush) -> None:
        """Run `flush()` at the end of every turn, after the actions and before what was added earlier.

        It says whether it has more to send in the next turn.
        """
        self._flushes.insert(0, flush)

    def schedule(self) -> None:
        """Have this turn come to an end, because something is to leave in it."""
        if not self.is_due:
            self.is_due = True
            self._loop.call_soon(self._end, context=self._context)

    def _end(self) -> None:
        more = False
        try:
            if self._actions:
                self._run_actions()
            for flush in self._flushes:
                more = flush() or more
        finally:
            self.is_due = False
            if more or self._actions:
                self.schedule()

    def _run_actions(self) -> None:
        have_run: dict[Action, None] = {}
        for_later: dict[Action, None] = {}
        while self._actions:
            actions, self._actions = self._actions, {}
            for action in actions:
                if action in have_run:
                    for_later[action] = None
                    continue
                have_run[action] = None
                try:
                    action()
                except Exception as error:
                    self._loop.call_exception_handler(
                        {"message": "an action at the end of a turn failed", "exception": error}
                    )
        self._actions = for_later
