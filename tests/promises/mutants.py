"""The product broken on purpose, one way after another: schedules that do not notice prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.promises.storm import Outcome

MOST_SEEDS = 12
"""Seeds within which a mutant must be noticed."""

MINUTES = 2.0


@dataclass(frozen=True)
class Mutant:
    """One way to break the product, which storms of one service must notice."""

    name: str
    service: str
    broken: Callable[[], AbstractContextManager[Any]]


MUTANTS: list[Mutant] = []


def try_all(run: Callable[[str, int, float], Outcome]) -> list[str]:
    """Run seeds of each mutant until one breaks a promise; the rows of a table."""
    return [
        f"| {m.name} | {m.service} | {seeds_until_noticed(m, run) or 'missed'} |" for m in MUTANTS
    ]


def seeds_until_noticed(mutant: Mutant, run: Callable[[str, int, float], Outcome]) -> int | None:
    with mutant.broken():
        for seed in range(MOST_SEEDS):
            if run(mutant.service, seed, MINUTES).violations:
                return seed + 1
    return None
