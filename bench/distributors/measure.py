"""Start the processes, have them work, kill a distributor, and collect the figures."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from bench.distributors import processes

PATIENCE = 900.0
"""Seconds: a busy machine takes its time to start thousands of subscribers."""


class MeasurementFailed(RuntimeError):
    """A process did not answer in time, or ended."""


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    subscribers: int = 5000
    crowds: int = 4
    """Processes that the subscribers share."""
    events: int = 200
    size: int = 256
    """Bytes of an event."""
    datagram: int = 1400
    """Bytes of a distributor's datagrams."""
    secondaries: int = 2
    """Distributors that are left when the first is killed."""


@dataclass(frozen=True)
class Figures:
    """What came out."""

    subscribed: int
    bytes_each: float
    """Resident memory that the distributor grew by, for each subscriber."""
    arrived: int
    events_per_second: float
    """Until the last subscriber has the last event."""
    distributor_cpu: float
    """Seconds of the distributor's CPU for each event that one subscriber gets, in microseconds."""
    datagrams: int
    """That the distributor sent for it."""
    moved: int
    moved_median: float
    moved_all: float
    """Seconds from the kill until half, and all, of the subscribers have another distributor."""


class Player:
    """A process at the other end of a pipe."""

    def __init__(self, role: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=role, args=(theirs, *arguments), daemon=True
        )
        self.process.start()
        theirs.close()

    @property
    def pipe(self) -> Connection:
        return self._pipe

    def tell(self, what: object) -> None:
        self._pipe.send(what)

    def answer(self) -> Any:
        try:
            if self._pipe.poll(PATIENCE):
                return self._pipe.recv()
        except EOFError:
            pass
        raise MeasurementFailed(f"{self.process.name} did not answer within {PATIENCE:g} s")

    def end(self) -> None:
        if self.process.is_alive():
            self._pipe.send(None)
            self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


def measure(setting: Setting) -> Figures:
    """One run; the processes are gone when it returns."""
    players: list[Player] = []
    try:
        return _measure(setting, players)
    finally:
        for player in reversed(players):
            player.end()


def _measure(setting: Setting, players: list[Player]) -> Figures:
    first, contacts, pid = _distributors(setting, players)
    _say(f"{1 + setting.secondaries} distributors run")
    before = _resident(pid)
    share = setting.subscribers // setting.crowds
    crowds = [Player(processes.crowd, contacts, share) for _ in range(setting.crowds)]
    players += crowds
    for one in crowds:
        one.answer()
    _say(f"{share * setting.crowds} subscribers are connected")
    first.tell("status")
    subscribed, cpu, counters = first.answer()
    bytes_each = (_resident(pid) - before) / max(subscribed, 1)
    source = Player(processes.publisher, contacts)
    players.append(source)
    source.answer()
    for one in crowds:
        one.tell(("receive", setting.events))
    source.tell((setting.events, setting.size))
    began = source.answer()
    received = [one.answer() for one in crowds]
    first.tell("status")
    _, cpu_after, counters_after = first.answer()
    arrived = sum(count for count, _, _ in received)
    seconds = max(at for _, at, _ in received) - began
    _say(f"{arrived} events came")
    moved = _fail_over(crowds, pid)
    return Figures(
        subscribed,
        bytes_each,
        arrived,
        setting.events / seconds,
        (cpu_after - cpu) / max(arrived, 1) * 1e6,
        int(counters_after["datagrams_sent"]) - int(counters["datagrams_sent"]),
        len(moved),
        moved[len(moved) // 2] if moved else float("nan"),
        moved[-1] if moved else float("nan"),
    )


def _distributors(setting: Setting, players: list[Player]) -> tuple[Player, list[bytes], int]:
    first = Player(processes.distributor, None, setting.datagram)
    players.append(first)
    pid, contact, address = first.answer()
    contacts = [contact]
    for _ in range(setting.secondaries):
        other = Player(processes.distributor, address, setting.datagram)
        players.append(other)
        contacts.append(other.answer()[1])
    return first, contacts, pid


def _fail_over(crowds: list[Player], pid: int) -> list[float]:
    for one in crowds:
        one.tell(("move", 60.0))
    time.sleep(0.5)
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return sorted(at - killed for one in crowds for at in one.answer())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _resident(pid: int) -> int:
    """Bytes of a process's memory that are in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
