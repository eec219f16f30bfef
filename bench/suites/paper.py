"""Figures 13 to 28 and tables 1 and 2, with the paper's parameters and at least its repetitions."""

from __future__ import annotations

from collections.abc import Mapping

from bench.experiment import Experiment
from bench.suites.grid import Suite, distinct, expand
from bench.suites.scale import growth
from bench.suites.settings import (
    CRASHED,
    FAILED,
    IMPLEMENTED,
    IMPLEMENTED_SIZES,
    MODES,
    P_SEL,
    SIMULATED,
    TOPOLOGIES,
)

NAME = "paper"
LARGE_P_SEL = (0.01, 0.07, 0.2, 1.0)


def suite() -> Suite:
    experiments = simulation(NAME, repetitions=1000) + tables(NAME, repetitions=1000)
    experiments += growth(NAME, largest=100_000, repetitions=10)
    # Events on one network share its tables, so few events on each of many networks say more.
    experiments += implementation(
        NAME, p_sel=P_SEL, networks=10, repetitions=2, sizes=IMPLEMENTED_SIZES
    )
    experiments += live(NAME, p_sel=P_SEL, repetitions=10, sizes=IMPLEMENTED_SIZES)
    experiments += crashes(NAME, CRASHED, networks=5, repetitions=4)
    experiments += large(NAME, repetitions=10)
    return Suite(NAME, "every figure and table of the paper's evaluation", distinct(experiments))


def large(name: str, repetitions: int) -> list[Experiment]:
    """As many real nodes as the paper simulated, in both of its settings, one network a mode."""
    sizes = SIMULATED["sizes"]
    return crashes(name, CRASHED, 1, repetitions, sizes, "crashes-large") + implementation(
        name, LARGE_P_SEL, 1, repetitions, dict.fromkeys(MODES, sizes), "p-sel-large"
    )


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
    found += expand(
        name, "table-1", tier="model", protocol=["camcast", "broadcast", "pmcast"], **shared
    )
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


SAME_SIZES = dict.fromkeys(MODES, IMPLEMENTED["sizes"])


def implementation(
    name: str,
    p_sel: tuple[float, ...],
    networks: int,
    repetitions: int,
    sizes: Mapping[str, tuple[int, ...]] = SAME_SIZES,
    figure: str = "figures-19-28",
) -> list[Experiment]:
    """Figures 19 to 28: the share of links p_sel, for emulated nodes of each mode's sizes.

    `networks` are built apart, and each disseminates `repetitions` events for each share. Beside them the
    formulas and the simulator with the same sizes, SCAMP's tables with those of the unstructured runs.
    """
    found = []
    for hierarchy in dict.fromkeys(sizes.values()):
        shared = {**IMPLEMENTED, "sizes": hierarchy, "p_sel": list(p_sel)}
        found += expand(name, figure, tier="model", **shared)
        scamp = ["unstructured"] if hierarchy == sizes["unstructured"] else []
        found += expand(
            name,
            figure,
            tier="simulate",
            mode=["uniform", *scamp],
            repetitions=networks * repetitions * 10,
            **shared,
        )
    for seed in range(networks):
        found += _real_nodes(name, figure, seed, "emulate", p_sel, repetitions, sizes)
    return found


def live(
    name: str,
    p_sel: tuple[float, ...],
    repetitions: int,
    sizes: Mapping[str, tuple[int, ...]] = SAME_SIZES,
) -> list[Experiment]:
    """Figures 19 to 28 with real processes: one network a mode."""
    return _real_nodes(name, "figures-19-28", 0, "live", p_sel, repetitions, sizes)


def _real_nodes(
    name: str,
    figure: str,
    seed: int,
    tier: str,
    p_sel: tuple[float, ...],
    repetitions: int,
    sizes: Mapping[str, tuple[int, ...]],
) -> list[Experiment]:
    """A network of each mode, whose events take turns with the shares of links."""
    found = []
    for mode in MODES:
        shared = {**IMPLEMENTED, "sizes": sizes[mode], "p_sel_series": p_sel}
        found += expand(name, figure, seed, tier=tier, mode=mode, repetitions=repetitions, **shared)
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
