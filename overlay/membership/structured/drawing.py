"""One drawing of a table: a size and a uniform sample from the directory, each of whom must confirm.

A directory knows of departures late. So a member that was drawn enters the table only when it says itself
that it is one: tables hold no process that left before the drawing, and none that had crashed.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.membership.interface import TopicDirectory
from overlay.membership.structured.config import StructuredConfig

ROUNDS = 2
"""How often those who do not answer are asked."""

SPARES = 2
"""How many more than needed are drawn, for some will not answer."""

Ask = Callable[[Contact, float], None]
"""Called with a member to ask and the community's size."""

Outcome = Callable[[float, int, list[Contact]], None]
"""Called once with the community's size, the table's size, and those who confirmed."""


class Drawing:
    """Begins when made; `outcome` is called once, unless it is cancelled before."""

    def __init__(
        self,
        topic: str,
        context: Context,
        directory: TopicDirectory,
        config: StructuredConfig,
        ask: Ask,
        outcome: Outcome,
    ) -> None:
        self._topic = topic
        self._context = context
        self._directory = directory
        self._config = config
        self._ask = ask
        self._outcome = outcome
        self._size = 1.0
        self._wanted = 0
        self._sample: tuple[Contact, ...] = ()
        self._silent: dict[PeerId, Contact] = {}
        self._confirmed: dict[PeerId, None] = {}
        self._rounds = 0
        self._timer: Timer | None = None
        self._is_over = False
        directory.size(topic, self._sized)

    def cancel(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def confirmed(self, member: Contact) -> None:
        """`member` says that it is one."""
        if self._is_over or self._silent.pop(member.id, None) is None:
            return
        self._confirmed[member.id] = None
        if not self._silent:
            self._finish()

    def suspect(self, peer: PeerId) -> None:
        """Do not wait for a process that has crashed."""
        if self._silent.pop(peer, None) is not None and not self._silent and not self._is_over:
            self._finish()

    def _sized(self, size: float) -> None:
        if self._is_over:
            return
        self._size = max(size, 1.0)
        self._wanted = self._config.table_size(self._size)
        self._directory.sample(self._topic, self._wanted + SPARES, self._sampled)

    def _sampled(self, members: tuple[Contact, ...]) -> None:
        me = self._context.contact.id
        self._sample = members
        self._silent = {member.id: member for member in members if member.id != me}
        if not self._is_over:
            self._ask_the_silent()

    def _ask_the_silent(self) -> None:
        if not self._silent or self._rounds == ROUNDS:
            self._finish()
            return
        self._rounds += 1
        self._timer = self._context.call_later(self._config.settle_seconds, self._ask_the_silent)
        for member in list(self._silent.values()):
            self._ask(member, self._size)

    def _finish(self) -> None:
        for silent in self._silent.values():
            self._directory.report(self._topic, silent)
        # In the order of the sample: in that of the answers, near members would be preferred.
        members = [member for member in self._sample if member.id in self._confirmed]
        self.cancel()
        self._outcome(self._size, self._wanted, members)
