"""Other simulators are measured where they are installed, and named where they are not."""

from __future__ import annotations

import pytest

from bench.workloads import simulator as simulators
from bench.workloads.simulator import WORKLOAD, beside_others
from bench.workloads.workload import LEFT_OUT


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dict.fromkeys(["no_such_simulator"], simulators.OTHERS["EoN"])
    monkeypatch.setattr(simulators, "OTHERS", absent)
    found = list(beside_others([100, 200]))
    assert [row.settings for row in found] == [
        {"simulator": "no_such_simulator", "processes": size} for size in (100, 200)
    ]
    assert {row.metric for row in found} == {LEFT_OUT}
    assert {row.note for row in found} == {"not installed (PyPI's package: no_such_simulator)"}


def test_ours_is_measured_beside_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(simulators, "limit", lambda size: 5e9)  # saves compiling it
    monkeypatch.setattr(simulators, "peak_memory", lambda size: 2.0**20)
    options = WORKLOAD.defaults(quick=True)
    options.processes, options.others = [1000], []
    found = {row.metric: row.value for row in WORKLOAD.run(options)}
    assert found["rate"] > 0
    assert (
        0 < found["share of the limit"] == pytest.approx(found["rate"] / found["limit"], rel=1e-3)
    )
    assert found["memory"] == 1.0
