"""The built-in suites, by name; any other name is the path of a TOML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.suites import alternatives, churn, paper, quick, scale
from bench.suites.grid import Suite, SuiteError
from bench.suites.toml_file import read_suite

BUILT_IN: dict[str, Callable[[], Suite]] = {
    "quick": quick.suite,
    "paper": paper.suite,
    "scale": scale.suite,
    "churn": churn.suite,
    "alternatives": alternatives.suite,
}


def find_suite(name: str) -> Suite:
    """A built-in suite, or the one in the TOML file of that path."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.endswith(".toml"):
        return read_suite(Path(name))
    raise SuiteError(
        f"no suite {name!r}: there are {', '.join(BUILT_IN)}, and your own as a path ending in .toml"
    )
