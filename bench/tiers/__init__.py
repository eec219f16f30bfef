"""The four tiers, chosen by name, imported when first used.

A tier is a module with `run(experiment)`, which gives the results of each of the experiment's points.
"""

from __future__ import annotations

from importlib import import_module

from bench.experiment import Experiment
from bench.results import CommunityResult


def run(experiment: Experiment) -> list[tuple[Experiment, list[CommunityResult]]]:
    """Run an experiment on its tier: the results of each point; deterministic but for the live tier."""
    module = import_module(f"bench.tiers.{experiment.tier}")
    results: list[list[CommunityResult]] = module.run(experiment)
    return list(zip(experiment.points(), results, strict=True))
