"""Aggregates made up one by one, for the tests of claims."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np

from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, Verdict
from bench.intervals import look_at, mean_interval
from bench.results import WHOLE

BASE = Aggregate(
    suite="quick",
    figure="figures-13-16",
    tier="simulate",
    protocol="camcast",
    mode="uniform",
    balance=False,
    dissemination="eager",
    sure_links=False,
    sizes=(1000, 100, 10),
    c=5.0,
    g=5.0,
    p_sel=None,
    a=1.0,
    z=3,
    loss=0.15,
    failure="stillborn",
    failed=0.3,
    publish_level=0,
    community=WHOLE,
    metric="reception",
    unit="",
    count=500,
    value=0.0,
    p50=None,
    p99=None,
    networks=(),
    sample=(),
)

REAL = {
    "figure": "figures-19-28",
    "tier": "replay",
    "c": 0.0,
    "a": 2.0,
    "z": 4,
    "loss": 0.0,
    "failed": 0.0,
    "count": 100_000,
}
SIZES = {
    "unstructured": (84, 27, 7),
    "semi-structured": (79, 28, 7),
    "structured": (79, 28, 7),
}


def row(value: float, spread: float = 0.0, networks: int = 50, **fields: Any) -> Aggregate:
    """A row whose interval is about `value` plus and minus `spread`; rows vary by themselves."""
    made = dataclasses.replace(BASE, **fields)
    chance = np.random.default_rng(zlib.crc32(repr(made.setting).encode()))
    drawn = chance.normal(size=networks)
    sample = np.full(networks, value)
    if spread:
        drawn -= drawn.mean()
        error = look_at(networks)[1] if made.is_of_networks else 0.05
        unit = mean_interval(drawn, error)
        sample = value + drawn * 2 * spread / (unit.high - unit.low)
    return dataclasses.replace(
        made,
        value=value,
        networks=tuple(range(networks)),
        sample=tuple(sample.tolist()),
    )


def replayed(mode: str, value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    """Of the paper's implementation: ten networks of the mode's sizes, as published."""
    shared = {**REAL, "mode": mode, "sizes": SIZES[mode], "p_sel": 0.07, "networks": 10}
    return row(value, spread, **{**shared, **fields})


def first(rows: list[Aggregate], networks: int) -> list[Aggregate]:
    """The same of fewer networks of real nodes."""
    return [each.first(networks) for each in rows]


def evidence(name: str, *rows: Aggregate) -> Verdict:
    claim = next(claim for claim in CLAIMS if claim.name == name)
    return claim.evidence(Aggregates(rows))


def verdict(name: str, *rows: Aggregate) -> bool | None:
    return evidence(name, *rows).holds
