"""Real processes, UDP and disks: archives, publishers and subscribers killed with SIGKILL, over and over.

`python -m tests.pubsub.archive.test_killed_processes --seconds 180` kills for three minutes with each store;
the tests do so for some seconds."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pubsub.archive.store.postgresql_server import PostgresqlServer
from tests.pubsub.archive.workers import lines

ROOT = Path(__file__).parents[3]
SETTLE = 90.0
"""Seconds that everything has to arrive once nothing is killed any more."""


class Processes:
    """One process for each role; killed and started again."""

    def __init__(self) -> None:
        self._arguments: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, role: str, *arguments: str) -> None:
        self._arguments[role] = list(arguments)
        self._running[role] = subprocess.Popen(
            [sys.executable, "-m", "tests.pubsub.archive.workers", role, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def first_line(self, role: str) -> str:
        output = self._running[role].stdout
        assert output is not None
        return output.readline().strip()

    def kill(self, role: str) -> None:
        process = self._running.pop(role)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def again(self, role: str) -> None:
        self.kill(role)
        self.start(role, *self._arguments[role])

    def kill_all(self) -> None:
        for role in list(self._running):
            self.kill(role)


@contextmanager
def processes() -> Iterator[Processes]:
    running = Processes()
    try:
        yield running
    finally:
        running.kill_all()


def kill_for(seconds: float, store: str, directory: Path, seed: int = 1) -> str:
    """Kill for this many seconds, let everything settle, and hold the files against each other; what was
    done."""
    chance = random.Random(seed)
    published, delivered = directory / "published", directory / "delivered"
    with processes() as running:
        running.start("boot")
        address = running.first_line("boot")
        running.start("archive", address, store, str(directory / "identity"))
        running.start("publisher", address, str(published))
        running.start("subscriber", address, str(delivered))
        for role in ("archive", "publisher", "subscriber"):
            assert running.first_line(role) == "ready"
        end = time.monotonic() + seconds
        kills = 0
        # On a busy machine the seconds may be over before the first event is safe: go on until there is one.
        while time.monotonic() < end or not kills or not is_any_safe(published):
            time.sleep(chance.uniform(0.5, 2.5))
            role = chance.choice(["archive", "archive", "publisher", "subscriber"])
            running.again(role)
            if chance.random() < 0.5:
                running.first_line(role)
            kills += 1
        running.kill("publisher")
        end = time.monotonic() + SETTLE
        while time.monotonic() < end and missing(published, delivered):
            time.sleep(0.5)
    check(published, delivered, f"{kills} kills, seed {seed}")
    done = len(lines(delivered))
    return f"{kills} kills, {done} events delivered: none lost, none twice unmarked, all in order"


def is_any_safe(published: Path) -> bool:
    return any(line[0] == "safe" for line in lines(published))


def missing(published: Path, delivered: Path) -> set[str]:
    safe = {line[1] for line in lines(published) if line[0] == "safe"}
    return safe - {line[1] for line in lines(delivered)}


def check(published: Path, delivered: Path, what: str) -> None:
    numbers = {line[1]: line[2] for line in lines(published) if line[0] == "published"}
    done = [line[1] for line in lines(delivered)]
    assert numbers, what
    assert not missing(published, delivered), f"{what}: acknowledged events were lost"
    assert len(set(done)) == len(done), f"{what}: an event was delivered twice"
    newest: dict[str, int] = {}
    for id in done:
        number = int(id[16:], 16)
        assert number > newest.get(id[:16], 0), f"{what}: events were delivered out of order"
        newest[id[:16]] = number


def test_nothing_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    kill_for(3, f"sqlite:////{tmp_path}/events.db", tmp_path)


@contextmanager
def store_of(kind: str, directory: Path) -> Iterator[str]:
    """The address of an empty store."""
    if kind == "postgresql":
        with PostgresqlServer() as server:
            yield server.new_address()
    elif kind == "sqlite":
        yield f"sqlite:////{directory}/events.db"
    else:
        yield f"file:///{directory}/log"


KINDS = ("sqlite", "files", "postgresql")


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "seed"), [*zip(KINDS, (2, 3, 4), strict=True)])
def test_nothing_is_lost_in_many_kills(kind: str, seed: int, tmp_path: Path) -> None:
    with store_of(kind, tmp_path) as store:
        kill_for(8, store, tmp_path, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill archives, publishers and subscribers.")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long, with each store")
    parser.add_argument("--stores", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for kind in options.stores:
        with tempfile.TemporaryDirectory(prefix="camcast-kill-") as name:
            with store_of(kind, Path(name)) as store:
                done = kill_for(options.seconds, store, Path(name), options.seed)
            print(f"{kind}: {options.seconds:g} s, {done}", flush=True)


if __name__ == "__main__":
    main()
