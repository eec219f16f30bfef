"""CAMCAST against gossip broadcast, gossip multicast, hierarchical gossip broadcast, and PMcast."""

from __future__ import annotations

from bench.experiment import Experiment
from bench.suites.grid import Suite, distinct, expand
from bench.suites.settings import SIMULATED, TOPOLOGIES

NAME = "alternatives"
SIMULATED_PROTOCOLS = ["camcast", "broadcast", "multicast", "hierarchical"]


def suite() -> Suite:
    return Suite(
        NAME,
        "messages, memory, parasites, reliability and latency",
        distinct(comparison(NAME, 1000)),
    )


def comparison(name: str, repetitions: int) -> list[Experiment]:
    """An event published in the bottom community and one in the root, in the paper's topologies."""
    found = []
    for topology in TOPOLOGIES:
        for level in (0, len(topology) - 1):
            shared = {**SIMULATED, "sizes": topology, "publish_level": level}
            computed = [*SIMULATED_PROTOCOLS, "pmcast"]
            found += expand(name, "alternatives", tier="model", protocol=computed, **shared)
            found += expand(
                name,
                "alternatives",
                tier="simulate",
                protocol=SIMULATED_PROTOCOLS,
                repetitions=repetitions,
                **shared,
            )
    return found
