"""The front door of the virtual network."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from overlay.errors import UsageError
from overlay.virtual.handles import VirtualTask
from overlay.virtual.host import Incarnation
from overlay.virtual.latency import Latency
from overlay.virtual.loop import VirtualLoop
from overlay.virtual.medium import Medium, Quality
from overlay.virtual.rules import Packet, Rule
from overlay.virtual.stats import Stats
from overlay.virtual.world import seeded_world, stream

T = TypeVar("T")


class Network:
    """A network of virtual hosts in this process, and the loop that runs it; good for one run."""

    def __init__(
        self,
        seed: int,
        *,
        latency: Latency | None = None,
        loss: float = 0.0,
        duplicate: float = 0.0,
        corrupt: float = 0.0,
    ) -> None:
        self.seed = seed
        self._loop = VirtualLoop(stream(seed, "entropy"))
        quality = Quality(latency or Latency.constant(0.001), loss)
        self._medium = Medium(self._loop, stream(seed, "network"), quality, duplicate, corrupt)
        self._loop.medium = self._medium

    def run(self, main: Coroutine[Any, Any, T], *, limit: float = 86_400.0) -> T:
        """Run `main` to its end in virtual time, and return or raise what it did."""
        if self._loop.is_closed():
            main.close()
            raise UsageError("this network has had its run: make another one")
        self._loop.time_limit = limit
        with seeded_world(self.seed, self._loop.time):
            try:
                task = self._loop.create_task(main, name="main")
                result: T = self._loop.run_until_complete(task)
                return result
            finally:
                self._loop.wind_up()

    def spawn(
        self, host: str, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None
    ) -> VirtualTask:
        """Run a coroutine on a host, with whose crash it dies."""
        incarnation = self._medium.host(host).incarnation
        if not incarnation.alive:
            coroutine.close()
            raise UsageError(f"{host} is down: restart it first")
        return self._loop.create_task(coroutine, name=name, context=incarnation.context())

    def crash(self, host: str) -> None:
        """Stop a host where it stands: its sockets, tasks, timers and queued packets are gone, and
        nobody is told. Whoever awaits one of its tasks gets `HostCrashed`."""
        self._medium.crash(self._medium.host(host))

    def restart(self, host: str) -> None:
        """Begin a new life of a host, after a crash or in place of one; it remembers nothing."""
        machine = self._medium.host(host)
        if machine.is_up:
            self._medium.crash(machine)
        machine.incarnation = Incarnation(machine)

    def partition(self, *groups: Iterable[str], one_way: bool = False) -> None:
        """Cut the groups of hosts off from each other, until `heal`.

        One way: datagrams from an earlier group to a later one are lost, the others pass.
        """
        sides = [frozenset(self._medium.host(host).address for host in group) for group in groups]
        for one, other in itertools.permutations(range(len(sides)), 2):
            if one < other or not one_way:
                self._medium.cut(sides[one], sides[other])

    def heal(self) -> None:
        """End all partitions."""
        self._medium.heal()

    @contextmanager
    def rule(self, rule: Rule) -> Iterator[None]:
        """Ask `rule` about every datagram for as long as the block lasts (see `overlay.virtual.rules`)."""
        self._medium.rules.append(rule)
        try:
            yield
        finally:
            self._medium.rules.remove(rule)

    @contextmanager
    def capture(self) -> Iterator[list[Packet]]:
        """A list of all datagrams that are sent while the block lasts."""
        packets: list[Packet] = []
        with self.rule(packets.append):
            yield packets

    @property
    def now(self) -> float:
        """Seconds of true virtual time since the start."""
        return self._loop.now

    @property
    def trace_hash(self) -> str:
        return self._medium.trace.hash

    @property
    def stats(self) -> Stats:
        return self._medium.stats()
