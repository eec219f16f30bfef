"""A suite of one's own, as a small TOML file.

    about = "what happens when a third is down"
    [[grid]]
    figure = "my-figure"
    tier = "simulate"
    sizes = [[1000, 100, 10]]      # a list of hierarchies
    failed = [0.0, 0.33]           # a list is an axis of the grid
    repetitions = 100

The suite is named after the file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bench.experiment import SERIES
from bench.suites.grid import Suite, SuiteError, distinct, expand


def read_suite(path: Path) -> Suite:
    """The suite in `path`; `SuiteError` names the file and what is wrong in it."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SuiteError(f"cannot read the suite {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path} is no TOML: {error}") from None
    grids = content.get("grid")
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise SuiteError(f"{path} has no [[grid]] table")
    unknown = sorted(set(content) - {"about", "grid"})
    if unknown:
        raise SuiteError(f"{path}: nothing is known of {', '.join(unknown)}")
    experiments = []
    for grid in grids:
        try:
            experiments += _expand(path.stem, grid)
        except (SuiteError, TypeError) as error:
            raise SuiteError(f"{path}: {error}") from None
    return Suite(path.stem, str(content.get("about", "")), distinct(experiments))


def _expand(suite: str, grid: dict[str, Any]) -> list[Any]:
    axes = dict(grid)
    figure = str(axes.pop("figure", suite))
    seed = axes.pop("seed", 0)
    if "tier" not in axes:
        raise SuiteError(f"{figure}: a grid needs a tier")
    if "suite" in axes:
        raise SuiteError(f"{figure}: a suite is named after its file")
    sizes = axes.get("sizes")
    if sizes is not None:
        if not isinstance(sizes, list) or not all(isinstance(item, list) for item in sizes):
            raise SuiteError(f"{figure}: sizes is a list of hierarchies, as in [[1000, 100, 10]]")
        axes["sizes"] = [tuple(item) for item in sizes]
    for name in SERIES:
        if name in axes:
            axes[name] = _series(figure, name, axes[name])
    return expand(suite, figure, seed, **axes)


def _series(figure: str, name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(isinstance(item, int | float) for item in value):
        raise SuiteError(f"{figure}: {name} is a list of numbers, not {value!r}")
    return tuple(value)
