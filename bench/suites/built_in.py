"""The built-in suites, by name; any other name is the path of a TOML file. And the settings that they share
with claims and figures: those of the paper's evaluation, and the defaults.

Where real nodes are concerned, a network is one boot of each mode with one seed. Each is used as well as it
can be: several shares of links take turns on it, then a share of it crashes, and thousands of events are
replayed over its tables (bench.simulate.replay).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.experiment import VARIANTS, Experiment
from bench.suites.grid import Family, Suite, SuiteError, distinct, expand, read_suite

MODES = ["unstructured", "semi-structured", "structured"]
"""The paper's."""
COMPARED = [*MODES, "hyparview"]
"""Those that are compared with default settings: a membership service of later years beside them."""

DEFAULTS: dict[str, Any] = {"c": 5.0, "g": 5.0, "a": 1.0, "z": 3, "loss": 0.0}
"""The parameters of a node that is told nothing else, on a network that loses nothing."""
SIMULATED: dict[str, Any] = {**DEFAULTS, "sizes": (1000, 100, 10), "loss": 0.15}
"""Section 6.1.1: the simulation."""
IMPLEMENTED: dict[str, Any] = {"sizes": (84, 27, 7), "c": 0.0, "a": 2.0, "z": 4, "loss": 0.0}
"""Section 6.2.1: the implementation; the sizes are those of its unstructured runs."""

IMPLEMENTED_SIZES = dict(zip(MODES, ((84, 27, 7), (79, 28, 7), (79, 28, 7)), strict=True))
"""Section 6.2.1: the processes that took part in the runs of each mode."""

TOPOLOGIES = [(1000, 100, 10), (100, 100, 100), (100, 100, 100, 100, 100)]
"""Tables 1 and 2."""

LINKS = "figures-19-28"
"""The figure of the paper's implementation: the modes as more processes act as links."""
DEFAULT = "defaults"
"""The figure of the modes with default parameters, before and after crashes."""
CHURN = "churn"
"""The figure of processes that come, go, crash and change topics."""

FAILED = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
P_SEL = (0.01, 0.02, 0.05, 0.07, 0.1, 0.2, 0.5, 1.0)
CRASHED = (0.0, 0.1, 0.3, 0.5)
"""Shares that crash of real nodes."""
PARETO_C = (0.0, 1.0, 2.0, 3.0)
"""How many a process sends to: floor(ln N) and up, over the tables of the defaults."""
LOST = (0.0, 0.15)
"""Losses under which events are replayed over the tables of the defaults: none, and section 6.1.1's."""


def variant(name: str) -> dict[str, Any]:
    """The fields of an experiment that make it published, improved or shipped."""
    return dict(zip(("balance", "dissemination", "sure_links"), VARIANTS[name], strict=True))


REPLAYS = 10_000
FEWER_REPLAYS = 2_500
"""Where networks are many: what differs is the networks, and five of them have 12,500 events."""
SMALL = (26, 10, 6)
"""Real nodes cost most: a third of the paper's, where the question is not one of sizes."""
TINIEST = (14, 6, 4)
"""Where the question is whether something happens at all."""
ALTERNATIVES = ["camcast", "broadcast", "multicast", "hierarchical"]


def quick() -> Suite:
    """What `make report` runs: every mode and every tier, within a few minutes on two cores."""
    name, shares = "quick", (0.01, 0.07, 0.1, 1.0)
    fixed = simulation(name, repetitions=500) + tables(name, repetitions=300)
    fixed += growth(name, largest=100_000, repetitions=100)
    fixed += comparison(name, repetitions=500)
    fixed += formulas_of_links(name, shares, 1000, IMPLEMENTED_SIZES)
    fixed += formulas_of_defaults(name, SMALL, (0.0, 0.3))
    fixed += live(name, TINIEST, repetitions=6)
    families = (
        links_family(name, shares, 1, IMPLEMENTED_SIZES, 20, FEWER_REPLAYS),
        defaults_family(name, "published", SMALL, (0.0, 0.3), 2, most=5),
        defaults_family(name, "shipped", SMALL, (0.0, 0.3), 20, most=5),
        churn_family(name, TINIEST, (0.02,), 10, most=5),
    )
    return Suite(name, "every mode and every tier, small", distinct(fixed), families)


def paper() -> Suite:
    """Figures 13 to 28 and tables 1 and 2, with the paper's parameters and at least its repetitions."""
    name = "paper"
    fixed = simulation(name, repetitions=1000) + tables(name, repetitions=1000)
    fixed += growth(name, largest=100_000, repetitions=100)
    fixed += comparison(name, repetitions=1000)
    fixed += formulas_of_links(name, P_SEL, 1000, IMPLEMENTED_SIZES)
    fixed += formulas_of_defaults(name, IMPLEMENTED["sizes"], CRASHED)
    fixed += live(name, IMPLEMENTED["sizes"], repetitions=20)
    families = (
        links_family(name, P_SEL, 1, IMPLEMENTED_SIZES, most=20),
        defaults_family(name, "published", IMPLEMENTED["sizes"], CRASHED, 2, most=10),
        defaults_family(name, "shipped", IMPLEMENTED["sizes"], CRASHED, 20, most=10),
        churn_family(name, SMALL, (0.02,), 20, most=10),
    )
    about = "every figure and table of the paper's evaluation"
    return Suite(name, about, distinct(fixed), families)


def scale() -> Suite:
    """How messages, rounds, memory and reliability grow with the number of processes."""
    name = "scale"
    fixed = growth(name, largest=10_000_000, repetitions=10)
    fixed += expand(
        name,
        "scale",
        tier="emulate",
        mode=MODES,
        repetitions=5,
        replays=1000,
        network=[0, 1, 2],
        **variant("improved"),
        **{**SIMULATED, "sizes": [(100, 10, 10), (300, 30, 10), (1000, 100, 10)]},
    )
    return Suite(name, "communities from a hundred to ten million processes", distinct(fixed))


def large() -> Suite:
    """As many real nodes as the paper simulated, in both of its settings, one network a mode."""
    name, sizes = "large", SIMULATED["sizes"]
    fixed = formulas_of_links(name, P_SEL, 100, dict.fromkeys(MODES, sizes))
    fixed += formulas_of_defaults(name, sizes, CRASHED)
    for kind in ("published", "shipped"):
        family = defaults_family(name, kind, sizes, CRASHED, 10, most=1)
        fixed += family.between(0, 1)
    fixed += links_family(name, P_SEL, 1, dict.fromkeys(MODES, sizes), most=1).between(0, 1)
    return Suite(name, "a thousand real nodes, one network a mode", distinct(fixed))


def churn() -> Suite:
    """The three modes while processes join, leave, crash and change topics."""
    name = "churn"
    rates = (0.0, 0.005, 0.01, 0.02)
    family = churn_family(name, IMPLEMENTED["sizes"], rates, 20, most=10)
    return Suite(name, "continuous joins, leaves, crashes and changes of topic", (), (family,))


def alternatives() -> Suite:
    """CAMCAST against gossip broadcast, gossip multicast, hierarchical gossip broadcast, and PMcast."""
    name = "alternatives"
    about = "messages, memory, parasites, reliability and latency"
    return Suite(name, about, distinct(comparison(name, 1000)))


BUILT_IN: dict[str, Callable[[], Suite]] = {
    "quick": quick,
    "paper": paper,
    "scale": scale,
    "large": large,
    "churn": churn,
    "alternatives": alternatives,
}


def find_suite(name: str) -> Suite:
    """A built-in suite, or the one in the TOML file of that path."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.endswith(".toml"):
        return read_suite(Path(name))
    raise SuiteError(
        f"no suite {name!r}: there are {', '.join(BUILT_IN)}, speed, and your own as a path ending in .toml"
    )


# Formulas and simulations.


def simulation(name: str, repetitions: int) -> list[Experiment]:
    """Figures 13 to 18: crashed processes, by formula and by simulation."""
    found = []
    for figure, failure in (("figures-13-16", "stillborn"), ("figures-17-18", "weak")):
        shared = {**SIMULATED, "failed": FAILED, "failure": failure}
        found += expand(name, figure, tier="model", **shared)
        shared |= {"tier": "simulate", "repetitions": repetitions}
        found += expand(name, figure, mode="uniform", **shared)
        # Claims are of uniform tables, and SCAMP's take several times as long.
        shared["repetitions"] = max(100, repetitions // 4)
        found += expand(name, figure, mode="unstructured", **shared)
    shared = {**SIMULATED, "tier": "simulate", "failed": FAILED, "repetitions": repetitions}
    found += expand(name, "figures-13-16", protocol="broadcast", **shared)
    return found


def tables(name: str, repetitions: int) -> list[Experiment]:
    """Tables 1 (rounds) and 2 (parasites of an event of the root topic)."""
    shared = {**SIMULATED, "sizes": TOPOLOGIES}
    computed = ["camcast", "broadcast", "pmcast"]
    found = expand(name, "table-1", tier="model", protocol=computed, **shared)
    shared |= {"tier": "simulate", "repetitions": repetitions}
    found += expand(name, "table-1", protocol=ALTERNATIVES, **shared)
    for topology in TOPOLOGIES:
        root = {**shared, "sizes": topology, "publish_level": len(topology) - 1}
        found += expand(name, "table-2", protocol=["camcast", "broadcast"], **root)
    return found


def growth(name: str, largest: int, repetitions: int) -> list[Experiment]:
    """Hierarchies of three levels, each a tenth of the one below, by formula and by simulation."""
    found = []
    size = 100
    while size <= largest:
        shared = {**SIMULATED, "sizes": (size, max(10, size // 10), max(10, size // 100))}
        found += expand(name, "scale", tier="model", **shared)
        # Large communities vary little.
        times = repetitions if size < 10**5 else min(repetitions, 30) if size < 10**6 else 2
        found += expand(name, "scale", tier="simulate", repetitions=times, **shared)
        size *= 10
    return found


def comparison(name: str, repetitions: int) -> list[Experiment]:
    """An event published in the bottom community and one in the root, in the paper's topologies."""
    found = []
    for topology in TOPOLOGIES:
        for level in (0, len(topology) - 1):
            shared = {**SIMULATED, "sizes": topology, "publish_level": level}
            computed = [*ALTERNATIVES, "pmcast"]
            found += expand(name, "alternatives", tier="model", protocol=computed, **shared)
            simulated = {"tier": "simulate", "repetitions": repetitions, **shared}
            found += expand(name, "alternatives", protocol=ALTERNATIVES, **simulated)
    return found


def formulas_of_links(
    name: str, p_sel: tuple[float, ...], repetitions: int, sizes: Mapping[str, tuple[int, ...]]
) -> list[Experiment]:
    """Figures 19 to 28 by formula and by simulation, SCAMP's tables with the sizes of unstructured runs."""
    found = []
    for hierarchy in dict.fromkeys(sizes.values()):
        shared = {**IMPLEMENTED, "sizes": hierarchy, "p_sel": list(p_sel)}
        found += expand(name, LINKS, tier="model", **shared)
        scamp = ["unstructured"] if hierarchy == sizes["unstructured"] else []
        simulated = {"tier": "simulate", "repetitions": repetitions, **shared}
        found += expand(name, LINKS, mode=["uniform", *scamp], **simulated)
    return found


def formulas_of_defaults(
    name: str, sizes: tuple[int, ...], failed: tuple[float, ...]
) -> list[Experiment]:
    """The default parameters by formula and by simulation, with tables of the living."""
    shared = {**DEFAULTS, "sizes": sizes, "failure": "repaired", "failed": list(failed)}
    shared["loss"] = list(LOST)
    return expand(name, DEFAULT, tier="model", **shared) + expand(
        name, DEFAULT, tier="simulate", repetitions=1000, **shared
    )


# Real nodes.


def links_family(
    name: str,
    p_sel: tuple[float, ...],
    repetitions: int,
    sizes: Mapping[str, tuple[int, ...]],
    most: int,
    replays: int = REPLAYS,
) -> Family:
    """Figures 19 to 28: the modes as published, whose events take turns with the shares of links."""

    def network(number: int) -> list[Experiment]:
        found = []
        for mode in MODES:
            shared = {**IMPLEMENTED, "sizes": sizes[mode], "p_sel_series": p_sel}
            shared |= {"repetitions": repetitions, "replays": replays, **variant("published")}
            found += expand(name, LINKS, tier="emulate", mode=mode, network=number, **shared)
        return found

    return Family(LINKS, ("published",), network, most)


def defaults_family(
    name: str,
    kind: str,
    sizes: tuple[int, ...],
    failed: tuple[float, ...],
    repetitions: int,
    most: int,
) -> Family:
    """The default parameters, before and after crashes; replayed with fewer messages and with loss, too."""
    shared = {
        **DEFAULTS,
        "sizes": sizes,
        "failure": "repaired",
        "failed_series": failed,
        "repetitions": repetitions,
        "replays": REPLAYS,
        "c_series": PARETO_C if kind == "shipped" else (),
        "loss_series": LOST,
        **variant(kind),
    }

    def network(number: int) -> list[Experiment]:
        modes = COMPARED if kind == "shipped" else MODES
        return expand(name, DEFAULT, tier="emulate", mode=modes, network=number, **shared)

    # Events over the tables of what is shipped are replayed by the paper's rule: that is the improved
    # variant.
    variants = ("shipped", "improved") if kind == "shipped" else (kind,)
    return Family(DEFAULT, variants, network, most)


def churn_family(
    name: str, sizes: tuple[int, ...], rates: tuple[float, ...], repetitions: int, most: int
) -> Family:
    """Processes are replaced all the time, and some change topics; as shipped."""
    shared = {**DEFAULTS, "sizes": sizes, "failure": "churn", "failed": list(rates)}
    shared |= {"repetitions": repetitions, **variant("shipped")}

    def network(number: int) -> list[Experiment]:
        return expand(name, CHURN, tier="emulate", mode=MODES, network=number, **shared)

    return Family(CHURN, ("shipped",), network, most)


def live(name: str, sizes: tuple[int, ...], repetitions: int) -> list[Experiment]:
    """Real processes over UDP, as shipped, one network a mode: for what only they can say."""
    shared = {**DEFAULTS, "sizes": sizes, "repetitions": repetitions, **variant("shipped")}
    return expand(name, DEFAULT, tier="live", mode=MODES, **shared)
