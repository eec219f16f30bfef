"""Tracing the report's events: what fails is told with its reason and what replays it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import commands
from bench.experiment import Experiment
from bench.spread import FILE, experiment, write_spread
from bench.store import ResultStore
from bench.suites import Suite, expand


class Here:
    """As much of Spark as tracing needs, in this process."""

    def __init__(self, items: Sequence[Any] = ()) -> None:
        self._items = items
        self.sparkContext = self

    def parallelize(self, items: Sequence[Any], slices: int) -> Here:
        return Here(items)

    def map(self, function: Callable[[Any], Any]) -> Here:
        return Here([function(item) for item in self._items])

    def collect(self) -> list[Any]:
        return list(self._items)


def test_a_trace_that_fails_is_told_with_its_reason_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(mode: str) -> dict[str, Any]:
        if mode == "structured":
            raise TimeoutError("nobody joined")
        return {"mode": mode}

    monkeypatch.setattr("bench.spread.trace", trace)
    monkeypatch.setattr("bench.rounds.execute", lambda *_, **__: [])
    suite = Suite("s", "", tuple(expand("s", "f", tier="emulate", mode="structured")))
    assert not commands._run(Here(), suite, ResultStore(tmp_path), False)  # type: ignore[arg-type]
    said, replay = capsys.readouterr().err.splitlines()
    assert said == "failed: tracing an event for the report: TimeoutError: nobody joined"
    replayed = Experiment.from_json(replay.removeprefix("  replay: "))
    assert replayed == experiment("structured")
    assert not (tmp_path / FILE).exists()


def test_what_was_traced_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.spread.trace", lambda mode: {"mode": mode})
    write_spread(Here(), tmp_path)  # type: ignore[arg-type]
    kept = json.loads((tmp_path / FILE).read_text())
    assert [event["mode"] for event in kept] == [
        "unstructured",
        "semi-structured",
        "structured",
        "hyparview",
    ]
