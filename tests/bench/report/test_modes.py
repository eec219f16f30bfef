"""Which mode when: the results choose, and say when they do not."""

from __future__ import annotations

from bench.aggregates import Aggregate, Aggregates
from bench.report.modes import NEEDS, advice, modes_table
from bench.suites.settings import MODES
from tests.bench.claims.made_up import emulated


def rows(structured: float, metric: str = "reception", networks: int = 10) -> list[Aggregate]:
    values = dict(zip(MODES, (0.8, 0.8, structured), strict=True))
    return [
        emulated(mode, value, 0.02, metric=metric, p_sel=p_sel, networks=networks)
        for mode, value in values.items()
        for p_sel in (0.01, 1.0)
    ]


def said(made: list[Aggregate]) -> str:
    return advice(Aggregates(made))[0]


def test_the_mode_that_is_ahead_is_chosen() -> None:
    few = "Reception, few links upward (p_sel = 0.01): "
    assert said(rows(0.9)) == f"{few}structured, not unstructured or semi-structured."
    assert said(rows(0.5)) == f"{few}unstructured or semi-structured, not structured."
    assert said(rows(0.81)).startswith("No mode is ahead")


def test_of_rounds_fewer_are_better() -> None:
    assert said(rows(0.5, "rounds")).endswith("structured, not unstructured or semi-structured.")


def test_few_networks_choose_nothing() -> None:
    assert any("not enough to choose by" in it for it in advice(Aggregates(rows(0.9, networks=1))))
    assert not any("not enough" in sentence for sentence in advice(Aggregates(rows(0.9))))


def test_without_results_only_what_the_modes_need_is_said() -> None:
    assert advice(Aggregates([])) == [NEEDS]
    assert modes_table(Aggregates([])).rows == ()
