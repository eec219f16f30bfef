"""Compiled code is kept under a name that changes with any file it could come from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import bench.simulate
from bench.simulate import compiled as module
from bench.simulate.compiled import Function, compiled
from bench.simulate.randomness import mixed


def test_kernels_are_named_after_every_file_of_the_package() -> None:
    digest = hashlib.sha256()
    for path in sorted(Path(bench.simulate.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    assert digest.hexdigest()[:12] in mixed.__qualname__


def test_where_nothing_can_be_kept_it_compiles_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    jit = module._jit

    def without_a_place(function: Function, cache: bool) -> Function:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return jit(function, cache)

    monkeypatch.setattr(module, "_jit", without_a_place)

    def doubled(number: int) -> int:
        return 2 * number

    assert compiled(doubled)(21) == 42
    assert asked == [True, False]
