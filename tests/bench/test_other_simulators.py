"""Other simulators are measured where they are installed, and named where they are not."""

from __future__ import annotations

import pytest

from bench.micro import other_simulators
from bench.micro.other_simulators import SIZES, beside_others


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dict.fromkeys(["no_such_simulator"], other_simulators.OTHERS["EoN"])
    monkeypatch.setattr(other_simulators, "OTHERS", absent)
    found = beside_others(lambda size: 1.0, 0.1, 0.1, lambda size: 5)
    assert [each.name for each in found] == [
        f"no_such_simulator, {size:.0e} processes" for size in SIZES
    ]
    assert {each.note for each in found} == {
        "left out: not installed (PyPI's package: no_such_simulator)"
    }
