"""How the nodes of a chain of communities join a virtual network."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from bench.experiment import Experiment
from bench.suites.built_in import IMPLEMENTED
from bench.tiers.population import Population
from overlay.virtual import Network


class Joins(Population):
    """Notes who joins when, and starts no nodes."""

    def __init__(self, sizes: tuple[int, ...], mode: str, balance: bool, directory: Path) -> None:
        experiment = Experiment(
            suite="test",
            figure="joins",
            tier="emulate",
            mode=mode,
            balance=balance,
            **{**IMPLEMENTED, "sizes": sizes},
        )
        super().__init__(experiment, Network(1), directory)
        self.began: list[int] = []
        self.joining = 0
        self.most = 0

    async def join(self, level: int, **more: Any) -> None:
        self.began.append(level)
        self.joining += 1
        self.most = max(self.most, self.joining)
        assert self.joining <= max(40, 0.25 * len(self._residents) + 1)
        await asyncio.sleep(random.Random(len(self.began)).random())
        self._residents[f"host {len(self.began)}"] = None  # type: ignore[assignment]
        self.joining -= 1


def joined(sizes: tuple[int, ...], mode: str, balance: bool, directory: Path) -> Joins:
    population = Joins(sizes, mode, balance, directory)
    Network(1).run(population.start())
    assert [population.began.count(level) for level in range(len(sizes))] == list(sizes)
    assert population.began == sorted(population.began, reverse=True), "the root joins first"
    return population


@pytest.mark.parametrize("sizes", [(1000, 100, 10), (84, 27, 7), (3, 2, 1)])
def test_everyone_joins_the_root_first_and_a_part_at_a_time(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    joined(sizes, "structured", True, tmp_path)


def test_more_join_at_a_time_where_many_are_there(tmp_path: Path) -> None:
    assert joined((84, 27, 7), "structured", True, tmp_path).most == 40
    assert joined((1000, 100, 10), "structured", True, tmp_path).most > 200


def test_published_views_are_made_by_few_joins_at_a_time(tmp_path: Path) -> None:
    assert joined((1000, 100, 10), "unstructured", False, tmp_path).most == 4
