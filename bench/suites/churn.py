"""The three modes while processes join and leave, and when many crash at once."""

from __future__ import annotations

from bench.suites.grid import Suite, distinct, expand
from bench.suites.paper import crashes
from bench.suites.settings import IMPLEMENTED, MODES, SIMULATED

NAME = "churn"


def suite() -> Suite:
    experiments = []
    for seed in range(3):
        shared = {**SIMULATED, "sizes": IMPLEMENTED["sizes"], "tier": "emulate", "mode": MODES}
        experiments += expand(
            NAME,
            "churn",
            seed,
            failure="churn",
            failed=[0.0, 0.005, 0.01, 0.02],
            repetitions=20,
            **shared,
        )
    experiments += crashes(NAME, (0.1, 0.3, 0.5), networks=3, repetitions=20)
    return Suite(NAME, "continuous joins and leaves, and correlated crashes", distinct(experiments))
