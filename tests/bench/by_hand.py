"""What aggregates are, row by row in Python: the SQL of `bench.aggregates` gives the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bench.aggregates import SETTING, Aggregate


def summarise(rows: Iterable[dict[str, Any]]) -> list[Aggregate]:
    """The aggregates of result rows: one for each setting, community and metric."""
    groups: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["error"] is None and row["value"] is not None:
            row = row | {"sizes": tuple(row["sizes"])}
            key = (*(row[name] for name in SETTING), row["community"], row["metric"], row["unit"])
            groups.setdefault(key, []).append(row)
    names = (*SETTING, "community", "metric", "unit")
    return [
        Aggregate(**dict(zip(names, key, strict=True)), **_summary(own))  # type: ignore[arg-type]
        for key, own in groups.items()
    ]


def _summary(own: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(own, key=lambda row: (row["network"], row["event"], row["value"]))
    values, weights, numbers = (
        np.array([row[name] for row in ordered]) for name in ("value", "events", "network")
    )
    networks, of = np.unique(numbers, return_inverse=True)
    sample = np.bincount(of, weights * values) / np.bincount(of, weights)
    single = [row["value"] for row in ordered if row["event"] >= 0]
    return {
        "count": int(weights.sum()),
        "value": float(sample.mean()),
        "p50": float(np.quantile(single, 0.5)) if single else None,
        "p99": float(np.quantile(single, 0.99)) if single else None,
        "networks": tuple(networks.tolist()),
        "sample": tuple(sample.tolist()),
    }
