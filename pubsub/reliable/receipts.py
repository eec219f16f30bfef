"""How far a message has come: one ladder of words for every service that publishes.

    sent    it is on its way, and on this node's disk where the service keeps a log
    acked   another process has it, so that its publisher may leave
    safe    all who are promised it have it, or will, whichever processes crash now: every participant of
            a strong topic, every distributor of the view, as many archives' disks as were asked for, the
            correct members of a group

A call with `wait` returns when the message has reached that stage, and gives a receipt, which can be asked
later. `deadline` is the budget in seconds of the whole call, whatever it has to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

from overlay.errors import CamcastError, UsageError

Wait = Literal["sent", "acked", "safe"]

LADDER: tuple[Wait, ...] = ("sent", "acked", "safe")


class NotInTime(CamcastError):
    """A deadline has passed first; the message may have been published all the same."""


def check_wait(wait: str, deadline: float | None = None, *, most: Wait = "safe") -> None:
    """`UsageError` unless `wait` is a word of the ladder, up to `most`, and the deadline makes sense."""
    allowed = LADDER[: LADDER.index(most) + 1]
    if wait not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed)
        raise UsageError(f"wait is one of {words} here, not {wait!r}")
    if deadline is not None:
        check_seconds("deadline", deadline)


def check_seconds(name: str, seconds: object) -> None:
    """`UsageError` unless the argument of this name is a number of seconds that can pass."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
        raise UsageError(f"{name} is seconds, more than 0, not {seconds!r}")


class Budget:
    """The seconds that one call has in all, from when this is made; None for as long as it takes."""

    __slots__ = ("_end", "_now", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._now = asyncio.get_running_loop().time
        self._end = None if seconds is None else self._now() + seconds

    @property
    def left(self) -> float | None:
        return None if self._end is None else max(self._end - self._now(), 0.0)

    @asynccontextmanager
    async def spend(self, what: str) -> AsyncIterator[None]:
        """Let a block take what is left; `NotInTime` says that `what` took longer."""
        try:
            async with asyncio.timeout_at(self._end):
                yield
        except TimeoutError:
            if self.seconds is None:
                raise
            raise NotInTime(f"{what} took more than {self.seconds:g} s") from None


def budget(deadline: float | None, what: str) -> AbstractAsyncContextManager[None]:
    """Let a block take at most `deadline` seconds; `NotInTime` says that `what` took longer."""
    return Budget(deadline).spend(what)


class News:
    """Wakes all who wait for a change. A change that nobody waits for is not remembered: look first, then
    wait, without an `await` in between."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter


class MessageReceipt:
    """What became of one message; it goes on to be kept up to date."""

    __slots__ = ("_change", "_reached", "number")

    def __init__(
        self, number: int, reached: Callable[[Wait], bool], change: Callable[[], Awaitable[object]]
    ) -> None:
        """`reached` tells whether the message has reached a stage. `change` waits until that may have
        changed, and raises `ClosedError` when it never will."""
        self.number = number
        """The number of the message in its publisher's run."""
        self._reached = reached
        self._change = change

    def __repr__(self) -> str:
        far = [word for word in LADDER if self._reached(word)]
        return f"MessageReceipt(#{self.number}: {far[-1] if far else 'not sent yet'})"

    @property
    def is_acked(self) -> bool:
        """Another process has it, so that its publisher may leave."""
        return self._reached("acked")

    @property
    def is_safe(self) -> bool:
        """All who are promised it have it, or will."""
        return self._reached("safe")

    async def wait(self, wait: Wait = "acked", deadline: float | None = None) -> None:
        """Wait until the message has reached the stage `wait`; `NotInTime` after `deadline` seconds."""
        check_wait(wait, deadline)
        async with budget(deadline, f'waiting until the message is "{wait}"'):
            while not self._reached(wait):
                await self._change()
