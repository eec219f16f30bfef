"""Programs on virtual hosts in a storm of faults, all by one seed, and what became of it.

A storm raises faults at random for some minutes: crashes with a restart under the same identity, partitions
(also one way), links that delay, slow hosts, power cuts, disks that refuse to write for a while. The network
may lose and repeat datagrams, and clocks are skewed by up to 4 %, from the beginning. Then everything is
mended, and what was promised has to come true within a quiet time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from overlay.errors import CamcastError, UsageError
from overlay.identity import Identity
from overlay.virtual import HostCrashed, Latency, Network, nth_host
from overlay.virtual.disk import VirtualDisk
from pubsub.reliable.journal import Change, Journal

PORT = 4000

Make = Callable[["Program"], Coroutine[Any, Any, None]]


@dataclass
class Program:
    """What one host runs, again after every crash, under the same identity and on the same disk."""

    name: str
    host: str
    make: Make
    identity: Identity
    disk: VirtualDisk
    mortal: bool = True
    """Whether the storm may crash it."""
    lives: int = 0
    task: asyncio.Task[None] | None = None
    is_up: bool = False
    log: str = ""
    """A file for an SQLite log; it outlives crashes."""

    @property
    def listen(self) -> str:
        return f"{self.host}:{PORT}"


@dataclass
class Outcome:
    """One seed of one service."""

    service: str
    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """Virtual seconds."""
    checked: int = 0
    """Messages that something was promised of."""
    minutes: float = 0.0
    """Virtual minutes of faults that were asked for."""
    commit: str = ""
    """The commit that was run; with a `+` where files differed from it."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Outcome:
        """From a row as `dataclasses.asdict` makes it."""
        return cls(**{**row, "faults": Counter(row["faults"])})


class _Noticing(logging.Handler):
    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._problems.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class Storm:
    """The network, its programs, and the faults."""

    def __init__(self, seed: int, minutes: float, kinds: tuple[str, ...]) -> None:
        self.chance = random.Random(f"{seed} storm")
        self.seed = seed
        self.minutes = minutes
        self.kinds = kinds
        self.faults: Counter[str] = Counter()
        loss = self.chance.choice((0.0, 0.01, 0.05, 0.2))
        duplicate = self.chance.choice((0.0, 0.02))
        self.net = Network(
            seed, latency=Latency.uniform(0.001, 0.05), loss=loss, duplicate=duplicate
        )
        self.faults["lossy network"] += loss > 0
        self.faults["duplicating network"] += duplicate > 0
        self.programs: list[Program] = []
        self.problems: list[str] = []
        self.is_over = False
        """Nothing fails any more, and programs are to publish nothing more."""
        self._directory = tempfile.TemporaryDirectory(prefix="storm")
        self._failing: Counter[str] = Counter()
        """Logs that cannot be written now."""

    @property
    def first_address(self) -> str:
        """Where newcomers find the network: the first program's address."""
        return self.programs[0].listen

    def add(self, name: str, make: Make, *, mortal: bool = True) -> Program:
        """One more host with a program, not yet started."""
        host = nth_host(len(self.programs))
        identity = Identity(random.Random(f"{self.seed} {name}").randbytes(32))
        disk = VirtualDisk(seed=self.chance.getrandbits(30))
        log = str(Path(self._directory.name, f"{len(self.programs)}.db"))
        program = Program(name, host, make, identity, disk, mortal, log=log)
        self.programs.append(program)
        if "skew" in self.kinds and len(self.programs) > 1:
            self.net.skew(host, rate=self.chance.uniform(0.96, 1.04))
            self.faults["skewed clock"] += 1
        return program

    def settings(self, program: Program) -> dict[str, Any]:
        """Of a program's node."""
        settings: dict[str, Any] = {"listen": program.listen, "identity": program.identity}
        if program is not self.programs[0]:
            settings["bootstrap"] = [self.first_address]
        return settings

    async def begin(self, pause: float, calm: float) -> None:
        """Start all programs, one after another, and leave them alone for a while."""
        for program in self.programs:
            self.start(program)
            await asyncio.sleep(pause)
        await asyncio.sleep(calm)

    def start(self, program: Program) -> None:
        program.lives += 1
        program.is_up = True
        program.task = self.net.spawn(program.host, self._run(program))

    async def _run(self, program: Program) -> None:
        """The program, begun again when the network lets it down; any other exception is a problem."""
        while True:
            try:
                await program.make(program)
                return
            except UsageError as error:
                self.problems.append(f"{program.name} raised {error!r}")
                return
            except CamcastError:
                await asyncio.sleep(1.0)
            except Exception as error:
                self.problems.append(f"{program.name} raised {error!r}")
                return

    def crash(self, program: Program) -> None:
        program.is_up = False
        self.net.crash(program.host)
        program.disk.crash()

    def restart(self, program: Program) -> None:
        self.net.restart(program.host)
        self.start(program)

    # The storm itself.

    async def rage(self, *also: asyncio.Task[None], calm: float = 0.0) -> None:
        """Faults, one after another and some at a time, for the minutes given, and until `also` has ended;
        then all is mended, and after a while of calm the storm is over."""
        end = self.net.now + 60 * self.minutes
        running = [*also]
        while self.net.now < end:
            await asyncio.sleep(self.chance.uniform(2, 12))
            kind = self.chance.choice([kind for kind in self.kinds if kind != "skew"])
            fault = getattr(self, f"_{kind}")
            running.append(asyncio.create_task(fault(self.chance.uniform(1, 25))))
        for task in running:
            await task
        self.net.heal()
        for program in self.programs:
            if not program.is_up:
                self.restart(program)
        await asyncio.sleep(calm)
        self.is_over = True

    async def _crash(self, seconds: float) -> None:
        victims = [p for p in self.programs if p.mortal and p.is_up]
        if not victims:
            return
        victim = self.chance.choice(victims)
        self.faults["crash"] += 1
        self.crash(victim)
        await asyncio.sleep(seconds)
        if not victim.is_up:
            self.restart(victim)

    async def _partition(self, seconds: float) -> None:
        hosts = [program.host for program in self.programs]
        self.chance.shuffle(hosts)
        cut = self.chance.randint(1, len(hosts) - 1)
        one_way = self.chance.random() < 0.3
        self.faults["one-way partition" if one_way else "partition"] += 1
        self.net.partition(hosts[:cut], hosts[cut:], one_way=one_way)
        await asyncio.sleep(seconds)
        self.net.heal()

    def _pair(self) -> tuple[str, str]:
        one, other = self.chance.sample(self.programs, 2)
        return one.host, other.host

    async def _spike(self, seconds: float) -> None:
        one, other = self._pair()
        self.faults["latency spike"] += 1
        self.net.link(one, other, latency=Latency.uniform(0.5, 2.0))
        await asyncio.sleep(seconds)
        self.net.link(one, other, latency=Latency.uniform(0.001, 0.05))

    async def _slow(self, seconds: float) -> None:
        program = self.chance.choice(self.programs)
        self.faults["slow host"] += 1
        self.net.slow(program.host, self.chance.uniform(2, 20))
        await asyncio.sleep(seconds)
        self.net.slow(program.host, 1)

    async def _disk(self, seconds: float) -> None:
        """A power cut in the middle of a write, and a crash with it."""
        victims = [p for p in self.programs if p.mortal and p.is_up and p.disk.operations]
        if not victims:
            return
        victim = self.chance.choice(victims)
        self.faults["power cut"] += 1
        victim.disk.cut_power_at(victim.disk.operations + self.chance.randint(1, 30))
        await asyncio.sleep(min(seconds, 3.0))
        if victim.is_up:
            self.crash(victim)
        else:
            victim.disk.crash()
        await asyncio.sleep(seconds)
        if not victim.is_up:
            self.restart(victim)

    async def _log(self, seconds: float) -> None:
        """A disk refuses to write a log for a while; the program lives."""
        program = self.chance.choice(self.programs)
        self.faults["failing disk"] += 1
        self._failing[program.log] += 1
        await asyncio.sleep(seconds)
        self._failing[program.log] -= 1

    @contextmanager
    def _disks(self) -> Iterator[None]:
        """Have the commits of logs fail whose disks are to fail."""
        commit, failing = Journal._commit, self._failing

        def commit_or_fail(journal: Journal, changes: Sequence[Change]) -> None:
            if failing[str(journal.path)]:
                raise sqlite3.OperationalError("disk I/O error")
            commit(journal, changes)

        with self._directory, patch.object(Journal, "_commit", commit_or_fail):
            yield

    @contextmanager
    def _noticing_exceptions(self) -> Iterator[None]:
        """Take what the product logs with a traceback for a problem: it was meant for a developer."""
        handler = _Noticing(self.problems)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)

    def run(self, main: Coroutine[Any, Any, None], outcome: Outcome) -> Outcome:
        """Run the schedule to its end, and note in the outcome what the storm did and saw."""
        try:
            with self._disks(), self._noticing_exceptions():
                self.net.run(main, limit=3600 * 4)
        except HostCrashed as error:
            outcome.violations.append(f"something waited for a crashed host: {error!r}")
        outcome.violations += self.problems
        outcome.faults = self.faults
        outcome.seconds = self.net.now
        return outcome


def twice(who: str, keys: Sequence[Any]) -> list[str]:
    """Whether somebody was given something a second time."""
    if len(set(keys)) == len(keys):
        return []
    again = sorted({key for key in keys if keys.count(key) > 1})
    return [f"{who} was given {again[:3]} twice"]


def overtaken(who: str, given: Iterable[tuple[Any, int]]) -> list[str]:
    """What was given to somebody after a later one of its source."""
    last: dict[Any, int] = {}
    wrong: list[str] = []
    for source, number in given:
        if last.get(source, 0) > number:
            wrong.append(f"{who} was given {number} of {source} out of order")
        last[source] = number
    return wrong


async def eventually(
    net: Network, seconds: float, is_true: Callable[[], bool], every: float = 1.0
) -> bool:
    """Whether it comes true within this many virtual seconds."""
    end = net.now + seconds
    while not is_true():
        if net.now >= end:
            return False
        await asyncio.sleep(every)
    return True
