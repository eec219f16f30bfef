"""Validation shared by the formulas: bad input raises `UsageError` and names the argument."""

from __future__ import annotations

import math

from overlay.errors import UsageError


def check_count(name: str, value: float, at_least: int = 1) -> None:
    """`value` counts something: a finite number, `at_least` or more."""
    if not (math.isfinite(value) and value >= at_least):
        raise UsageError(f"{name} must be {at_least} or more, not {value!r}.")


def check_probability(name: str, value: float) -> None:
    """`value` lies in [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name} must be a probability between 0 and 1, not {value!r}.")


def check_finite(name: str, value: float) -> None:
    """`value` is neither infinite nor NaN."""
    if not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, not {value!r}.")


def check_level(level: int, levels: int) -> None:
    """`level` is an index into a hierarchy of `levels` communities."""
    if not 0 <= level < levels:
        raise UsageError(f"level must be between 0 and {levels - 1}, not {level!r}.")
