"""The four tiers, each a module with `run(experiment)`; chosen by name, imported when first used."""

from __future__ import annotations

from importlib import import_module

from bench.experiment import Experiment
from bench.results import CommunityResult


def run(experiment: Experiment) -> list[CommunityResult]:
    """Run an experiment on its tier; deterministic but for the live tier."""
    module = import_module(f"bench.tiers.{experiment.tier}")
    results: list[CommunityResult] = module.run(experiment)
    return results
