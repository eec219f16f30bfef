"""Filters: how many events a second one evaluates, beside a Python function, and what the worst one costs.

Processor time, on one core. The worst expressions are those that spend all the steps that an evaluation
may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.micro.measurement import Measurement
from pubsub.filters import Filter

EVENT = {"price": 12, "symbol": "ACME", "order": {"lines": [{"qty": 3}, {"qty": 5}]}}

FILTERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "one comparison": ("price > 10", lambda data: data["price"] > 10),
    "comparison and membership": (
        "price > 10 AND symbol IN ('ACME', 'B', 'C')",
        lambda data: data["price"] > 10 and data["symbol"] in {"ACME", "B", "C"},
    ),
    "paths, arithmetic and LIKE": (
        "order.lines[0].qty + order.lines[1].qty * 2 = 13 AND symbol LIKE 'A%E'",
        lambda data: (
            data["order"]["lines"][0]["qty"] + data["order"]["lines"][1]["qty"] * 2 == 13
            and data["symbol"].startswith("A")
            and data["symbol"].endswith("E")
        ),
    ),
}

WORST: dict[str, tuple[str, Any]] = {
    "LIKE over a long text": ("$ LIKE '%a_b%'", "a" * 249_000),
    "membership in a long list": ("-1 IN $", list(range(250_000))),
    "as much as can be written": (" OR ".join(["a + a * a > 9"] * 73), {"a": 1}),
}

SECONDS = 0.5


def measure() -> list[Measurement]:
    """Evaluations a second, and the milliseconds of the worst ones."""
    results: list[Measurement] = []
    for name, (text, function) in FILTERS.items():
        wanted = Filter.parse(text)
        rate, plain = _rate(lambda w=wanted: w.matches(EVENT)), _rate(lambda f=function: f(EVENT))  # type: ignore[misc]
        note = f"a Python function: {plain / rate:.1f} times as many"
        results.append(Measurement(name, rate, "events/s", note))
    text = FILTERS["paths, arithmetic and LIKE"][0]
    results.append(
        Measurement("parsing the last one", _rate(lambda: Filter.parse(text)), "filters/s")
    )
    for name, (text, data) in WORST.items():
        wanted = Filter.parse(text)
        milliseconds = 1000 / _rate(lambda w=wanted, d=data: w.evaluate(d))  # type: ignore[misc]
        results.append(Measurement(f"worst: {name}", milliseconds, "ms"))
    return results


def _rate(work: Callable[[], object]) -> float:
    """How often a second of processor time."""
    times, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        for _ in range(10):
            work()
        times += 10
    return times / (time.process_time() - start)
