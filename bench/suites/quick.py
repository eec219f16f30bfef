"""Every mode and every tier, small: what `make report` runs, within three minutes on two cores."""

from __future__ import annotations

from bench.suites.alternatives import comparison
from bench.suites.grid import Suite, distinct
from bench.suites.paper import crashes, implementation, live, simulation, tables
from bench.suites.scale import growth

NAME = "quick"
SMALL = (40, 15, 7)
"""Real nodes cost most: half of the paper's, where the question is not one of sizes."""


def suite() -> Suite:
    experiments = simulation(NAME, repetitions=200) + tables(NAME, repetitions=200)
    experiments += growth(NAME, largest=100_000, repetitions=10)
    experiments += comparison(NAME, repetitions=100)
    experiments += implementation(NAME, p_sel=(0.01, 0.07, 1.0), networks=1, repetitions=10)
    experiments += live(NAME, p_sel=(0.07,), repetitions=10)
    experiments += crashes(NAME, failed=(0.3,), networks=1, repetitions=10, sizes=SMALL)
    return Suite(NAME, "every mode and every tier, small", distinct(experiments))
