"""How messages, rounds, memory and reliability grow with the number of processes."""

from __future__ import annotations

from bench.experiment import Experiment
from bench.suites.grid import Suite, distinct, expand
from bench.suites.settings import MODES, SIMULATED

NAME = "scale"


def suite() -> Suite:
    experiments = growth(NAME, largest=10_000_000, repetitions=10)
    for seed in range(3):
        experiments += expand(
            NAME,
            "scale",
            seed,
            tier="emulate",
            mode=MODES,
            repetitions=5,
            **{**SIMULATED, "sizes": [(100, 10, 10), (300, 30, 10), (1000, 100, 10)]},
        )
    return Suite(NAME, "communities from a hundred to ten million processes", distinct(experiments))


def growth(name: str, largest: int, repetitions: int) -> list[Experiment]:
    """Hierarchies of three levels, each a tenth of the one below, by formula and by simulation."""
    found = []
    size = 100
    while size <= largest:
        shared = {**SIMULATED, "sizes": (size, max(10, size // 10), max(10, size // 100))}
        found += expand(name, "scale", tier="model", **shared)
        found += expand(
            name, "scale", tier="simulate", repetitions=repetitions if size < 10**6 else 2, **shared
        )
        size *= 10
    return found
