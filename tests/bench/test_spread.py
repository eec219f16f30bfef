"""Tracing the report's events: what fails is told with its reason and what replays it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.commands import _keep_traced
from bench.experiment import Experiment
from bench.report.spread import experiment, trace_all
from bench.suites.built_in import COMPARED


class Here:
    """As much of a pipe, a process at its other end and a store as tracing needs."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._sent: list[dict[str, Any]] = []

    def send(self, found: list[dict[str, Any]]) -> None:
        self._sent = found

    def answer(self) -> list[dict[str, Any]]:
        return self._sent

    def kept(self, table: str) -> list[dict[str, Any]]:
        return self.rows

    def keep(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.rows = rows


def traced(here: Any) -> bool:
    trace_all(here)
    return _keep_traced(here, here)


def test_a_trace_that_fails_is_told_with_its_reason_and_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(mode: str) -> dict[str, Any]:
        if mode == "structured":
            raise TimeoutError("nobody joined")
        return {"mode": mode}

    monkeypatch.setattr("bench.report.spread.trace", trace)
    here = Here()
    assert not traced(here)
    said, replay = capsys.readouterr().err.splitlines()
    assert said == "failed: tracing an event for the report: TimeoutError: nobody joined"
    assert Experiment.from_json(replay.removeprefix("  replay: ")) == experiment("structured")
    assert here.rows == []


def test_what_was_traced_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.spread.trace", lambda mode: {"mode": mode})
    here = Here()
    assert traced(here)
    assert [event["mode"] for event in here.rows] == COMPARED
    monkeypatch.setattr("bench.report.spread.trace", lambda mode: {"mode": mode, "again": True})
    assert traced(here)
    assert not any("again" in event for event in here.rows)
