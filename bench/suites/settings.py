"""The settings that suites, claims and figures share: those of the paper's evaluation, and the defaults."""

from __future__ import annotations

from typing import Any

from bench.experiment import VARIANTS

MODES = ["unstructured", "semi-structured", "structured"]
"""The paper's."""
COMPARED = [*MODES, "hyparview"]
"""Those that are compared with default settings: a membership service of later years beside them."""

SIMULATED: dict[str, Any] = {
    "sizes": (1000, 100, 10),
    "c": 5.0,
    "g": 5.0,
    "a": 1.0,
    "z": 3,
    "loss": 0.15,
}
"""Section 6.1.1: the simulation."""

IMPLEMENTED: dict[str, Any] = {"sizes": (84, 27, 7), "c": 0.0, "a": 2.0, "z": 4, "loss": 0.0}
"""Section 6.2.1: the implementation; the sizes are those of its unstructured runs."""

IMPLEMENTED_SIZES: dict[str, tuple[int, ...]] = {
    "unstructured": (84, 27, 7),
    "semi-structured": (79, 28, 7),
    "structured": (79, 28, 7),
}
"""Section 6.2.1: the processes that took part in the runs of each mode."""

DEFAULTS: dict[str, Any] = {"c": 5.0, "g": 5.0, "a": 1.0, "z": 3, "loss": 0.0}
"""The parameters of a node that is told nothing else, on a network that loses nothing."""

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
