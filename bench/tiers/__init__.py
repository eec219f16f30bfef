"""The tiers, chosen by name, imported when first used; the communities of real nodes, which two of them need.

A tier is a module with `run(experiment)`, which gives the results of each of the experiment's points, and of
replayed ones. Those of real nodes also have `run_observed(experiment)`, which gives the events that the
results are computed from, too. Replayed events (`bench.simulate.replay`) have no experiments of their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench.experiment import Experiment
from bench.results import Result

if TYPE_CHECKING:
    from bench.traces import Observation

MODULES = {
    "model": "bench.tiers.model",
    "simulate": "bench.simulate.runs",
    "emulate": "bench.tiers.emulate",
    "live": "bench.tiers.live",
}
OBSERVED = ("emulate", "live")
"""The tiers of real nodes."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Run an experiment on its tier: the results of each point; deterministic but for the live tier."""
    module = import_module(MODULES[experiment.tier])
    results: list[tuple[Experiment, list[Result]]] = module.run(experiment)
    return results


def run_observed(
    experiment: Experiment,
) -> tuple[list[tuple[Experiment, list[Result]]], list[tuple[Experiment, list[Observation]]]]:
    """Run an experiment on its tier of real nodes: its results, and the events of each point behind them."""
    module = import_module(MODULES[experiment.tier])
    results, events = module.run_observed(experiment)
    return results, list(zip(experiment.points(), events, strict=True))
