"""The settings that several suites share: those of the paper's evaluation."""

from __future__ import annotations

from typing import Any

MODES = ["unstructured", "semi-structured", "structured"]

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

TOPOLOGIES = [(1000, 100, 10), (100, 100, 100), (100, 100, 100, 100, 100)]
"""Tables 1 and 2."""

FAILED = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
P_SEL = (0.01, 0.02, 0.05, 0.07, 0.1, 0.2, 0.5, 1.0)
CRASHED = (0.0, 0.1, 0.3, 0.5)
"""Shares that crash of real nodes."""
