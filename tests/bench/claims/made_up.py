"""Aggregates made up one by one, for the tests of claims."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, Verdict

BASE = Aggregate(
    suite="quick",
    figure="figures-13-16",
    tier="simulate",
    protocol="camcast",
    mode="uniform",
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
    count=100,
    networks=100,
    low=0.0,
    value=0.0,
    high=0.0,
    p50=0.0,
    p99=0.0,
)

REAL = {
    "figure": "figures-19-28",
    "tier": "emulate",
    "c": 0.0,
    "a": 2.0,
    "z": 4,
    "loss": 0.0,
    "failed": 0.0,
    "networks": 10,
    "count": 20,
}
SIZES = {
    "unstructured": (84, 27, 7),
    "semi-structured": (79, 28, 7),
    "structured": (79, 28, 7),
}


def row(value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    bounds = {"value": value, "low": value - spread, "high": value + spread}
    return dataclasses.replace(BASE, **{**bounds, **fields})


def emulated(mode: str, value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    """Of the paper's implementation: ten networks of the mode's sizes, two events each."""
    shared = {**REAL, "mode": mode, "sizes": SIZES[mode], "p_sel": 0.07}
    return row(value, spread, **{**shared, **fields})


def evidence(name: str, *rows: Aggregate) -> Verdict:
    claim = next(claim for claim in CLAIMS if claim.name == name)
    return claim.evidence(Aggregates(rows))


def verdict(name: str, *rows: Aggregate) -> bool | None:
    return evidence(name, *rows).holds
