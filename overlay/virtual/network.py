"""The front door of the virtual network."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from overlay.errors import UsageError
from overlay.virtual import crash
from overlay.virtual.hosts import SocketTable, Stats
from overlay.virtual.links import Latency, Packet, Quality, Rule, VirtualLinks, require_probability
from overlay.virtual.loop import Deadlock, VirtualLoop, describe_waiting
from overlay.virtual.medium import Medium
from overlay.virtual.transport import DEFAULT_RECEIVE_BUFFER
from overlay.virtual.world import choose_seed, no_automatic_collection, seeded_world, stream

T = TypeVar("T")

DAY = 86_400.0
WIND_UP_SECONDS = 60.0
"""Virtual seconds that cancelled tasks get to come to their end."""


class Network:
    """Virtual hosts in this process, the network between them and the loop that runs it all.

    Faults of the whole network are given here, those of single hosts and links by the methods, at any
    time. A network is good for one run; the same seed and the same program give the same run.
    """

    def __init__(
        self,
        seed: int,
        *,
        latency: Latency | None = None,
        loss: float = 0.0,
        duplicate: float = 0.0,
        corrupt: float = 0.0,
        bandwidth: float | None = None,
        receive_buffer: int = DEFAULT_RECEIVE_BUFFER,
    ) -> None:
        """Lossless with a constant latency of one millisecond, unless told otherwise.

        `loss`, `duplicate`, `corrupt`: probabilities for each datagram. `bandwidth`: bytes a second of each
        host's link, in each direction; unlimited when None. `receive_buffer`: bytes that may wait at a
        socket whose host is slow or has a narrow link, 1,024 charged for each datagram in addition to
        its size; a program may double it by SO_RCVBUF.
        """
        require_probability("duplicate", duplicate)
        require_probability("corrupt", corrupt)
        self.seed = choose_seed(seed)
        self._loop = VirtualLoop()
        chance = stream(self.seed, "network")
        self._links = VirtualLinks(Quality(latency or Latency.constant(0.001), loss), chance)
        self._programs: dict[asyncio.Task[Any], None] = {}
        self._sockets = SocketTable(_checked_bandwidth(bandwidth))
        self._medium = self._loop.medium = Medium(
            self._loop,
            chance,
            self._links,
            self._sockets,
            duplicate=duplicate,
            corrupt=corrupt,
            receive_buffer=receive_buffer,
        )

    # -- running --

    def run(self, main: Coroutine[Any, Any, T], *, limit: float = DAY) -> T:
        """Run `main` to its end in virtual time, and return or raise what it did.

        What still runs then is cancelled. `Deadlock` is raised when nothing will ever happen again, when
        time stands still, or when `main` is not done after `limit` virtual seconds.
        """
        if self._loop.is_closed():
            main.close()
            raise UsageError("this network has had its run: make another one")
        crash.bury()
        with seeded_world(self.seed, self._loop.time), no_automatic_collection():
            try:
                self._loop.time_limit = limit
                result: T = self._loop.run_until_complete(self._loop.create_task(main, name="main"))
                self._wind_up()
                return result
            except BaseException as failure:
                failure.add_note(f"virtual network: seed {self.seed}, at {self.now:.6f} s")
                with suppress(Exception):
                    self._wind_up()
                raise
            finally:
                self._sockets.vanish()
                self._loop.close()

    def _wind_up(self) -> None:
        """Cancel what still runs, in the order in which it was begun, and wait for its end."""
        self._loop.time_limit = self.now + WIND_UP_SECONDS
        tasks = self._loop.tasks()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(Exception, asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        left = self._loop.tasks()
        for task in left:
            crash.abandon(self._loop, task, "did not end when it was cancelled")
        if left:
            raise Deadlock(f"cancelled and still not done: {describe_waiting(left)}")

    def spawn(
        self, host: str, coroutine: Coroutine[Any, Any, T], *, name: str | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine on a host: with the host's clock and speed, bound to its address, and dead with its
        crash. Code that awaits the task then gets `HostCrashed`."""
        incarnation = self._sockets.host(host).incarnation
        if not incarnation.alive:
            coroutine.close()
            raise UsageError(f"{host} is down: restart it before spawning on it")
        task: asyncio.Task[T] = self._loop.create_task(
            coroutine, name=name, context=incarnation.context()
        )
        # The loop itself holds tasks weakly, and a host's programs do not go with the garbage.
        self._programs[task] = None
        task.add_done_callback(self._programs.pop)
        return task

    # -- hosts --

    def crash(self, host: str) -> None:
        """Stop a host where it stands. Its sockets, tasks, timers and queued packets are gone, and
        nobody is told; not even a `finally` of its programs runs."""
        machine = self._sockets.host(host)
        self._sockets.vanish(machine)
        crash.kill(self._loop, machine.incarnation)

    def restart(self, host: str) -> None:
        """Begin a host's next life, after a crash or in place of one. Nothing runs on it until spawned."""
        self.crash(host)
        self._sockets.host(host).restart()

    def slow(self, host: str, factor: float) -> None:
        """Make a host take `factor` times 0.1 ms for each datagram and each timer, one after another;
        1 is full speed, at which neither takes any time."""
        if not factor >= 1:
            raise UsageError(f"a host is slowed by a factor of 1 or more, not {factor}")
        self._sockets.host(host).slow_down(factor)
        self._loop.slowed = True

    def limit(self, host: str, bandwidth: float | None) -> None:
        """Let a host's link carry `bandwidth` bytes a second in each direction; None for no limit."""
        self._sockets.host(host).limit(_checked_bandwidth(bandwidth))

    def skew(self, host: str, *, offset: float = 0.0, rate: float = 1.0) -> None:
        """Make the clock of what is spawned on a host show `offset + rate * true time`.

        Timers that are set already keep their moment.
        """
        if not rate > 0:
            raise UsageError(f"a clock goes forward: its rate is above 0, not {rate}")
        machine = self._sockets.host(host)
        machine.skew(offset, rate)
        self._loop.skewed = True

    # -- links --

    def link(
        self,
        one: str,
        other: str,
        *,
        latency: Latency | None = None,
        loss: float | None = None,
        one_way: bool = False,
    ) -> None:
        """Change the latency or the loss between two hosts, or only from the one to the other."""
        for source, destination in [(one, other)] if one_way else [(one, other), (other, one)]:
            pair = self._sockets.host(source).address, self._sockets.host(destination).address
            self._links.change(*pair, latency, loss)

    def partition(self, *groups: Iterable[str], one_way: bool = False) -> None:
        """Cut groups of hosts off from each other until `heal`; what is on its way between them is lost.

        One way: what an earlier group sends to a later one is lost, and the other direction works.
        """
        sides = [frozenset(map(self._address, _as_group(group))) for group in groups]
        for (i, side), (j, other) in itertools.permutations(enumerate(sides), 2):
            if i < j or not one_way:
                self._links.cut(side, other)

    def heal(self) -> None:
        """End all partitions."""
        self._links.heal()

    def _address(self, host: str) -> str:
        return self._sockets.host(host).address

    # -- watching and meddling --

    @contextmanager
    def rule(self, rule: Rule) -> Iterator[None]:
        """Ask `rule` about every datagram for as long as the block lasts (see `overlay.virtual.links`).

        An exception of a rule ends the run.
        """
        rules = self._medium.rules
        rules.append(rule)
        try:
            yield
        finally:
            rules.remove(rule)

    @contextmanager
    def capture(self) -> Iterator[list[Packet]]:
        """A list of all datagrams that are sent while the block lasts."""
        packets: list[Packet] = []
        with self.rule(packets.append):
            yield packets

    @property
    def now(self) -> float:
        """True virtual seconds since the start, whatever the clocks of the hosts show."""
        return self._loop.now

    @property
    def unhandled(self) -> list[dict[str, Any]]:
        """What reached the loop's exception handler: exceptions that no program caught."""
        return self._loop.unhandled

    @property
    def trace_hash(self) -> str:
        """A hash of the time, source, destination and size of every datagram, and what became of it."""
        return self._medium.trace.hash

    @property
    def stats(self) -> Stats:
        """Datagrams and bytes sent, delivered and lost up to now, per host and in all."""
        return self._medium.stats()


def _checked_bandwidth(bandwidth: float | None) -> float | None:
    if bandwidth is not None and not bandwidth > 0:
        raise UsageError(f"bandwidth is bytes a second above 0, or None, not {bandwidth}")
    return bandwidth


def _as_group(group: Iterable[str]) -> Iterable[str]:
    return [group] if isinstance(group, str) else group
