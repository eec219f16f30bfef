"""A broken part is tried on random steps until the checks of its properties notice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

TRIES = 300
"""Within this many tries each mutant must be noticed."""


def assert_noticed(play: Callable[[random.Random], None], tries: int = TRIES) -> None:
    """Fail unless `play`, which asserts properties over random steps, raises `AssertionError`."""
    chance = random.Random(1)
    for _ in range(tries):
        try:
            play(chance)
        except AssertionError:
            return
    pytest.fail(f"nothing was noticed in {tries} tries")
