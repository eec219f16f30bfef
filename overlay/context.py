"""What a protocol core may ask of the world.

A protocol core is a synchronous object. It reacts to a message or a timer, and never touches a socket,
a clock or a global random source: it is given a `Context` and uses nothing else. So the same core runs
over real UDP (`overlay.runtime`), on the virtual network, or in a unit test that calls it by hand.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, Protocol, TypeVar

from overlay.contact import Contact

T = TypeVar("T")


class Randomness(Protocol):
    """The part of `random.Random` that cores use; they are handed one and never import it."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...
    def randrange(self, start: int, stop: int, /) -> int: ...
    def uniform(self, a: float, b: float, /) -> float: ...
    def choice(self, seq: Sequence[T], /) -> T: ...
    def sample(self, population: Sequence[T], k: int) -> list[T]: ...
    def shuffle(self, x: MutableSequence[Any], /) -> None: ...
    def randbytes(self, n: int, /) -> bytes: ...


class Timer(Protocol):
    """A running timer; cancelling one that has fired or been cancelled does nothing."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class OneTimer:
    """One timer at a time, which calls one action; none after `close`."""

    def __init__(self, call_later: CallLater, action: Callable[[], None]) -> None:
        self._call_later = call_later
        self._action = action
        self._timer: Timer | None = None
        self._is_closed = False

    def set(self, delay: float) -> None:
        """Have it ring after `delay` seconds, unless it is set already."""
        if self._timer is None and not self._is_closed:
            self._timer = self._call_later(delay, self._ring)

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def cancel(self) -> None:
        """It does not ring until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self.cancel()
        self._is_closed = True

    def _ring(self) -> None:
        self._timer = None
        self._action()


class Context(Protocol):
    """The world of one protocol core on one node.

    `send` never blocks and never raises for reasons of the network: whether it is acknowledged or
    may be lost is settled where the context is made, and the core's docstring says which it needs.
    """

    @property
    def contact(self) -> Contact:
        """This node, as others know it."""
        ...

    @property
    def random(self) -> Randomness:
        """This core's own stream of randomness."""
        ...

    def now(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def send(self, to: Contact, message: object) -> None:
        """Send a registered message (see `overlay.wire`) to a peer."""
        ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, `delay` seconds from now."""
        ...
