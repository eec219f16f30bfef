"""Experiments for the simulator, and what is read from the events of one."""

from __future__ import annotations

from typing import Any

from bench.experiment import Experiment
from bench.results import CommunityResult
from bench.simulate import simulate


def asked(**fields: Any) -> Experiment:
    """One event; the defaults are those of the paper's simulation."""
    fields.setdefault("loss", 0.15)
    return Experiment(suite="test", figure="simulate", tier="simulate", **fields)


def events(experiment: Experiment, repetitions: int) -> list[list[CommunityResult]]:
    """The communities of each event, every one over tables of its own."""
    return [simulate(experiment, repetition) for repetition in range(repetitions)]


def everyone(event: list[CommunityResult]) -> bool:
    """Every live process that is interested was reached."""
    return all(community.everyone in (1, None) for community in event)


def known(value: float | None) -> float:
    assert value is not None
    return value


def reached(community: CommunityResult) -> float:
    return known(community.reached)


def received(community: CommunityResult) -> float:
    """Messages that arrived at a live process of the community, from wherever."""
    return known(community.useful) + known(community.duplicates)


def messages(event: list[CommunityResult]) -> float:
    """All messages sent."""
    return sum(known(own.messages_inside) + known(own.messages_upward) for own in event)


def parasites(event: list[CommunityResult]) -> float:
    return sum(known(community.parasites) for community in event)


def rounds(event: list[CommunityResult]) -> float:
    """The round of the last first reception by an interested process."""
    return max(community.rounds or 0 for community in event)
