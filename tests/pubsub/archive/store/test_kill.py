"""Processes that are killed while they write, and a server that crashes: nothing that was safe is lost."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from pubsub.archive.store import StoreError, open_store
from tests.pubsub.archive.store.postgresql_server import PostgresqlServer
from tests.pubsub.archive.store.schedules import event


def write_until_killed(address: str, lines: int) -> list[int]:
    """Have a process write, kill it after so many of its lines, and return the numbers it called safe."""
    command = [sys.executable, "-m", "tests.pubsub.archive.store.writing_process", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        read = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        read += process.stdout.readlines()
    return [int(line) for line in read if line.strip().isdigit() and line.endswith("\n")]


def kill_again_and_again(address: str, times: int, seed: int) -> None:
    chance, safe = random.Random(seed), set[int]()
    for _ in range(times):
        safe |= set(write_until_killed(address, chance.randrange(5, 300)))
        store = open_store(address)
        kept = {one.sequence for one in store.events("/soccer", 0, 1_000_000)}
        assert safe <= kept, (
            f"seed {seed}: {sorted(safe - kept)[:9]} were called safe, and are gone"
        )
        assert not [damage for damage in store.verify() if damage.reason == "corrupt"]
        store.close()
    assert safe


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_killed_process_loses_nothing_that_was_safe(tmp_path: Path, kind: str) -> None:
    kill_again_and_again(f"{kind}:///{tmp_path}/store", times=2, seed=1)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["sqlite", "file", "postgresql"])
def test_processes_killed_again_and_again_lose_nothing_that_was_safe(
    tmp_path: Path, kind: str, postgresql: PostgresqlServer
) -> None:
    address = f"{kind}:///{tmp_path}/store"
    kill_again_and_again(postgresql.new_address() if kind == "postgresql" else address, 3, seed=2)


def test_a_crash_of_the_server_loses_nothing_that_was_safe(postgresql: PostgresqlServer) -> None:
    address = postgresql.new_address()
    store = open_store(address)
    store.write([event(number) for number in range(1, 50)])
    store.sync()
    store.write([event(50)])
    postgresql.crash()
    with pytest.raises(StoreError):
        store.sync()
    with pytest.raises(StoreError):
        store.events("/soccer", 0, 1)
    postgresql.start()
    store = open_store(address)
    assert store.last_sequence("/soccer") == 49
    assert len(store.events("/soccer", 0, 100)) == 49
    store.close()
