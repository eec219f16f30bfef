"""The four tiers, chosen by name, imported when first used.

A tier is a module with `run(experiment)`, which gives the results of each of the experiment's points. Those
of real nodes also have `observe(experiment)`, which gives the events that the results are computed from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench.experiment import Experiment
from bench.results import CommunityResult

if TYPE_CHECKING:
    from bench.traces import Observation

OBSERVED = ("emulate", "live")
"""The tiers of real nodes."""


def run(experiment: Experiment) -> list[tuple[Experiment, list[CommunityResult]]]:
    """Run an experiment on its tier: the results of each point; deterministic but for the live tier."""
    module = import_module(f"bench.tiers.{experiment.tier}")
    results: list[list[CommunityResult]] = module.run(experiment)
    return list(zip(experiment.points(), results, strict=True))


def observe(experiment: Experiment) -> list[tuple[Experiment, list[Observation]]]:
    """Run an experiment on its tier of real nodes: the events of each point, and who was there."""
    module = import_module(f"bench.tiers.{experiment.tier}")
    events: list[list[Observation]] = module.observe(experiment)
    return list(zip(experiment.points(), events, strict=True))
