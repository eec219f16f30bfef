"""One request on its way, from the first sending to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import Any

from overlay.contact import Address, Contact
from overlay.errors import ClosedError


class Outcome(Enum):
    """How a call ended."""

    ANSWERED = auto()
    GIVEN_UP = auto()
    OFFENDED = auto()
    CANCELLED = auto()
    CLOSED = auto()


class Call:
    """One request and what becomes of it.

    `await call` gives upstream's `(True, reply)` or `(False, None)`, and cancelling who waits cancels
    the call.
    """

    __slots__ = (
        "address",
        "challenge",
        "contact",
        "due",
        "excused",
        "expects",
        "frame",
        "from_light",
        "number",
        "on_end",
        "on_overdue",
        "outcome",
        "registry",
        "reply",
        "sent",
        "timer",
        "tries",
        "waiter",
    )

    def __init__(
        self, number: bytes, to: Contact | Address, frame: bytes, challenge: bytes | None
    ) -> None:
        self.number = number
        self.address = to.address if isinstance(to, Contact) else to
        self.contact = to if isinstance(to, Contact) else None
        """Who was asked; for a call to a bare address, who answered."""
        self.frame = frame
        self.challenge = challenge
        self.registry: dict[bytes, Call] = {}
        self.expects: tuple[type, ...] | None = None
        self.sent: list[float] = []
        self.due = 0.0
        self.excused = False
        self.tries: int | None = None
        """How often it is sent; None: as often as the measured loss asks for."""
        self.timer: asyncio.TimerHandle | None = None
        self.outcome: Outcome | None = None
        self.reply: Any = None
        self.from_light = False
        self.waiter: asyncio.Future[None] | None = None
        self.on_end: Callable[[Call], None] | None = None
        self.on_overdue: Callable[[Call], None] | None = None

    def cancel(self) -> None:
        self.end(Outcome.CANCELLED)

    def end(self, outcome: Outcome) -> None:
        """The first outcome counts."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self.timer is not None:
            self.timer.cancel()
        self.registry.pop(self.number, None)
        if self.on_end is not None:
            self.on_end(self)
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def __await__(self) -> Generator[Any, None, tuple[bool, Any]]:
        if self.outcome is None:
            self.waiter = asyncio.get_running_loop().create_future()
            try:
                yield from self.waiter
            finally:
                self.cancel()
        if self.outcome is Outcome.CLOSED:
            raise ClosedError("the DHT was closed before the answer came")
        return self.outcome is Outcome.ANSWERED, self.reply
