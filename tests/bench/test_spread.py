"""Tracing the report's events: what fails is told with its reason and what replays it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from bench import commands
from bench.experiment import Experiment
from bench.report.spread import experiment, write_spread
from bench.suites import Suite, expand


class Here:
    """As much of Spark, and of a store, as tracing needs, in this process."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._items: list[Any] = []

    def createDataFrame(self, rows: list[tuple[str]], columns: str) -> Here:
        self._items = [mode for (mode,) in rows]
        return self

    def repartition(self, parts: int, column: str) -> Here:
        return self

    def mapInArrow(self, function: Callable[..., Iterable[pa.RecordBatch]], columns: str) -> Here:
        batches = function([pa.record_batch([self._items], ["mode"])])
        self._items = [SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()]
        return self

    def collect(self) -> list[Any]:
        return self._items

    def kept(self, table: str) -> list[dict[str, Any]]:
        return self.rows

    def keep(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.rows = json.loads(json.dumps(rows))


def test_a_trace_that_fails_is_told_with_its_reason_and_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(mode: str) -> dict[str, Any]:
        if mode == "structured":
            raise TimeoutError("nobody joined")
        return {"mode": mode}

    monkeypatch.setattr("bench.report.spread.trace", trace)
    monkeypatch.setattr("bench.runs.execute", lambda *_, **__: [])
    suite = Suite("s", "", tuple(expand("s", "f", tier="emulate", mode="structured")))
    store = Here()
    is_complete, _ = commands._run(Here(), suite, store, False)  # type: ignore[arg-type]
    assert not is_complete
    said, replay = capsys.readouterr().err.splitlines()
    assert said == "failed: tracing an event for the report: TimeoutError: nobody joined"
    replayed = Experiment.from_json(replay.removeprefix("  replay: "))
    assert replayed == experiment("structured")
    assert store.rows == []


def test_what_was_traced_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.spread.trace", lambda mode: {"mode": mode})
    store = Here()
    write_spread(Here(), store)  # type: ignore[arg-type]
    assert [event["mode"] for event in store.rows] == [
        "unstructured",
        "semi-structured",
        "structured",
        "hyparview",
    ]
