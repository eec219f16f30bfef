"""One line of a micro-benchmark's result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """A figure that was measured, what it counts, and what to compare it with."""

    name: str
    value: float
    unit: str
    note: str = ""
