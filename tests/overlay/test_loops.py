"""The loop of a real node."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from overlay import loops


async def _name_of_the_loop() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_uvloop_runs_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert loops.run(_name_of_the_loop()) == "uvloop"


def test_asyncio_runs_where_uvloop_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loops.run(_name_of_the_loop()).startswith("asyncio")


def test_what_main_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        loops.run(fail())


def test_garbage_is_collected_as_before_once_it_is_over() -> None:
    gc.unfreeze()
    before = gc.get_threshold(), gc.get_freeze_count()

    async def main() -> int:
        return gc.get_threshold()[0]

    assert loops.run(main()) == loops.NEW_OBJECTS
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
