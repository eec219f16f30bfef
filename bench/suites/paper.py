"""Figures 13 to 28 and tables 1 and 2, with the paper's parameters and at least its repetitions."""

from __future__ import annotations

from bench.experiment import Experiment
from bench.suites.grid import Suite, distinct, expand
from bench.suites.scale import growth
from bench.suites.settings import FAILED, IMPLEMENTED, MODES, P_SEL, SIMULATED, TOPOLOGIES

NAME = "paper"


def suite() -> Suite:
    experiments = simulation(NAME, repetitions=1000) + tables(NAME, repetitions=1000)
    experiments += growth(NAME, largest=100_000, repetitions=10)
    experiments += implementation(NAME, p_sel=P_SEL, networks=2, repetitions=10, live=P_SEL)
    experiments += crashes(NAME, (0.0, 0.1, 0.3, 0.5), networks=2, repetitions=10)
    experiments += crashes(
        NAME,
        (0.0, 0.3, 0.5),
        networks=1,
        repetitions=10,
        sizes=SIMULATED["sizes"],
        figure="crashes-large",
    )
    return Suite(NAME, "every figure and table of the paper's evaluation", distinct(experiments))


def simulation(name: str, repetitions: int) -> list[Experiment]:
    """Figures 13 to 18: crashed processes, by formula and by simulation."""
    found = []
    for figure, failure in (("figures-13-16", "stillborn"), ("figures-17-18", "weak")):
        shared = {**SIMULATED, "failed": FAILED, "failure": failure}
        found += expand(name, figure, tier="model", **shared)
        found += expand(
            name,
            figure,
            tier="simulate",
            mode=["uniform", "unstructured"],
            repetitions=repetitions,
            **shared,
        )
    found += expand(
        name,
        "figures-13-16",
        tier="simulate",
        protocol="broadcast",
        failed=FAILED,
        repetitions=repetitions,
        **SIMULATED,
    )
    return found


def tables(name: str, repetitions: int) -> list[Experiment]:
    """Tables 1 (rounds) and 2 (parasites of an event of the root topic)."""
    shared = {**SIMULATED, "sizes": TOPOLOGIES}
    found = expand(name, "table-1", tier="simulate", repetitions=repetitions, **shared)
    found += expand(
        name,
        "table-1",
        tier="simulate",
        protocol=["broadcast", "multicast", "hierarchical"],
        repetitions=repetitions,
        **shared,
    )
    found += expand(name, "table-1", tier="model", protocol=["camcast", "broadcast"], **shared)
    for topology in TOPOLOGIES:
        root = {**shared, "sizes": topology, "publish_level": len(topology) - 1}
        found += expand(
            name,
            "table-2",
            tier="simulate",
            protocol=["camcast", "broadcast"],
            repetitions=repetitions,
            **root,
        )
    return found


def implementation(
    name: str,
    p_sel: tuple[float, ...],
    networks: int,
    repetitions: int,
    live: tuple[float, ...],
    sizes: tuple[int, ...] = IMPLEMENTED["sizes"],
) -> list[Experiment]:
    """Figures 19 to 28: the share of links p_sel, for real nodes and for the simulator beside them.

    `networks` are built apart, and each disseminates `repetitions` events for each share; one more, with
    the shares in `live`, is of real processes.
    """
    shared = {**IMPLEMENTED, "sizes": sizes}
    found = expand(name, "figures-19-28", tier="model", p_sel=list(p_sel), **shared)
    found += expand(
        name,
        "figures-19-28",
        tier="simulate",
        mode=["uniform", "unstructured"],
        p_sel=list(p_sel),
        repetitions=networks * repetitions * 10,
        **shared,
    )
    for tier, shares, count in (("emulate", p_sel, networks), ("live", live, 1)):
        for seed in range(count):
            found += expand(
                name,
                "figures-19-28",
                seed,
                tier=tier,
                mode=MODES,
                p_sel_series=shares,
                repetitions=repetitions,
                **shared,
            )
    return found


def crashes(
    name: str,
    failed: tuple[float, ...],
    networks: int,
    repetitions: int,
    sizes: tuple[int, ...] = IMPLEMENTED["sizes"],
    figure: str = "crashes",
) -> list[Experiment]:
    """Section 6.1's setting on real nodes: loss and crashes, with tables that are kept fresh.

    Beside them the formulas, and the simulator with tables drawn anew from the living.
    """
    shared = {**SIMULATED, "sizes": sizes, "failure": "repaired"}
    found = expand(name, figure, tier="model", failed=list(failed), **shared)
    found += expand(
        name,
        figure,
        tier="simulate",
        failed=list(failed),
        repetitions=networks * repetitions * 20,
        **shared,
    )
    for seed in range(networks):
        found += expand(
            name,
            figure,
            seed,
            tier="emulate",
            mode=MODES,
            failed_series=failed,
            repetitions=repetitions,
            **shared,
        )
    return found
