"""A store that fails is seen from outside: the command says so and ends with an exit code."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import pytest

from overlay.errors import CamcastError
from pubsub import Node, Publisher
from tests.pubsub.command_process import camcast, line

DISK = 400_000
"""Bytes of a file until the disk of the command counts as full."""


def ended(process: Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


@pytest.mark.sweep
@pytest.mark.parametrize("address", ["file://{}", "sqlite:///{}"])
def test_an_archive_whose_disk_is_full_says_so_and_ends_with_an_error(
    address: str, tmp_path: Path
) -> None:
    store = address.format(tmp_path / "store")
    words = ("archive", "--topic", "/t", "--store", store, "--listen", "127.0.0.1:0")
    with camcast(*words, largest_file=DISK) as archive:
        where = line(archive).split()[-1]

        async def fill() -> None:
            async with Node(listen="127.0.0.1:0", bootstrap=[where]) as node:
                with suppress(CamcastError):
                    data = [bytes(2_000)] * (2 * DISK // 2_000)
                    await node.publish_many("/t", data, durable=True, deadline=5)

        asyncio.run(fill())
        code, errors = ended(archive)
    assert code == 1
    assert "the archive has stopped, since its store failed" in errors
    assert "Traceback" not in errors


@pytest.mark.sweep
def test_a_distributor_whose_history_fails_says_so_and_ends_with_an_error(tmp_path: Path) -> None:
    store = f"file://{tmp_path / 'store'}"
    words = ("distributor", "--service", "ticker", "--archive", store, "--listen", "127.0.0.1:0")
    with camcast(*words, largest_file=DISK) as distributor:
        where = line(distributor).split()[2].rstrip(",")

        async def fill() -> None:
            async with Publisher(bootstrap=[where]) as publisher:
                with suppress(CamcastError):
                    for _ in range(2 * DISK // 2_000):
                        await publisher.publish("ticker", bytes(2_000), deadline=5)

        asyncio.run(fill())
        code, errors = ended(distributor)
    assert code == 1
    assert "the history has stopped, since its store failed" in errors
    assert "Traceback" not in errors
