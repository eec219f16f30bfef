"""The first screen: the results choose a mode, and say when they do not."""

from __future__ import annotations

from typing import Any

import pytest

from bench.aggregates import Aggregate, Aggregates
from bench.report.headline import headline
from bench.report.real_nodes import cross_check, pareto, variants_table
from bench.report.svg import draw
from bench.results import WHOLE
from bench.suites.built_in import DEFAULT, DEFAULTS, MODES, variant
from tests.bench.claims.made_up import row

SETTING: dict[str, Any] = {
    **DEFAULTS,
    "figure": DEFAULT,
    "sizes": (40, 15, 7),
    "failure": "repaired",
    "failed": 0.0,
    "community": WHOLE,
    "networks": 5,
    "count": 50,
}


def shipped(mode: str, metric: str, value: float, spread: float = 0.0, **fields: Any) -> Aggregate:
    made = {**SETTING, "tier": "emulate", **variant("shipped"), "mode": mode, "metric": metric}
    return row(value, spread, **{**made, **fields})


def screen(metric: str, values: tuple[float, float, float], **fields: Any) -> Any:
    rows = [shipped(mode, metric, v, **fields) for mode, v in zip(MODES, values, strict=True)]
    return headline(Aggregates(rows))


def winners(metric: str, values: tuple[float, float, float], **fields: Any) -> list[str]:
    found = screen(metric, values, **fields)
    return [mode for mode, cell in zip(MODES, found.rows[0].cells, strict=True) if cell.is_best]


def test_the_mode_that_is_ahead_of_both_others_is_marked() -> None:
    assert winners("reliability", (0.8, 0.8, 0.95), spread=0.02) == ["structured"]
    assert winners("rest_bytes", (300.0, 800.0, 900.0), spread=20.0) == ["unstructured"]
    assert winners("seconds", (0.4, 0.3, 0.2), spread=0.01) == ["structured"]


def test_nobody_is_marked_where_it_is_not_decided() -> None:
    assert winners("reliability", (0.8, 0.8, 0.84), spread=0.1) == []
    assert winners("rest_bytes", (300.0, 310.0, 900.0), spread=40.0) == []
    found = screen("reliability", (1.0, 1.0, 1.0))
    assert found.rows[0].verdict in ("no difference", "not decided")


def test_two_that_are_alike_and_ahead_of_the_others_are_told() -> None:
    values = {"unstructured": 17.0, "semi-structured": 16.5, "structured": 11.0, "hyparview": 11.5}
    rows = [shipped(mode, "largest_table", value, 0.1) for mode, value in values.items()]
    [found] = headline(Aggregates(rows)).rows
    assert found.verdict == "structured and hyparview ahead"
    assert not any(cell.is_best for cell in found.cells)


def test_few_networks_choose_nothing() -> None:
    assert winners("rest_bytes", (300.0, 800.0, 900.0), spread=5.0, networks=4) == []
    found = screen("rest_bytes", (300.0, 800.0, 900.0), spread=5.0, networks=4)
    assert "fewer than 5 networks" in found.rows[0].verdict


def test_the_answer_says_what_was_decided() -> None:
    rows = []
    for metric, values in (
        ("reliability", (0.97, 0.97, 0.97)),
        ("rest_bytes", (300.0, 800.0, 900.0)),
        ("join_datagrams", (100.0, 500.0, 480.0)),
    ):
        rows += [
            shipped(mode, metric, value, value / 300)
            for mode, value in zip(MODES, values, strict=True)
        ]
    first, *others = headline(Aggregates(rows)).answer
    assert first.startswith("All modes deliver alike")
    [told, nothing] = others
    assert told.startswith("Take unstructured where every node can be told a member of its topic")
    assert "the fewest bytes at rest (300, others 800 to 900)" in told
    assert "the fewest datagrams to join (100, others 480 to 500)" in told
    assert nothing == (
        "Semi-structured and structured are ahead of all others in no row of the table."
    )


def test_without_results_it_says_how_to_get_them() -> None:
    found = headline(Aggregates([]))
    assert "camcast bench run quick" in found.answer[0]
    assert found.rows == ()
    assert variants_table(Aggregates([])).rows == ()
    assert cross_check(Aggregates([])).rows == ()
    assert pareto(Aggregates([])) is None


def test_published_improved_and_shipped_stand_side_by_side() -> None:
    shared = {**SETTING, "metric": "reliability"}
    rows = [row(0.95, tier="model", **{**shared, "networks": 1})]
    for mode in MODES:
        real = {**shared, "mode": mode}
        rows.append(row(0.7, 0.02, tier="replay", **real, **variant("published")))
        rows.append(row(0.94, 0.02, tier="replay", **real, **variant("improved")))
        rows.append(row(1.0, tier="emulate", **real, **variant("shipped")))
    table = variants_table(Aggregates(rows))
    assert [line[0] for line in table.rows] == MODES
    published, improved = table.rows[2][5:7]
    assert published == "-25.0, less"
    assert improved == "+24.0, more"


@pytest.mark.parametrize(("emulated", "word"), [(0.9, "agrees"), (0.5, "differs")])
def test_replayed_events_are_held_against_emulated_ones(emulated: float, word: str) -> None:
    shared = {**SETTING, "mode": "structured", "metric": "reception", **variant("published")}
    rows = [row(0.9, 0.01, tier="replay", **shared), row(emulated, 0.03, tier="emulate", **shared)]
    [found] = cross_check(Aggregates(rows)).rows
    assert found[-1] == word


def test_a_curve_of_each_mode_says_what_reliability_costs() -> None:
    rows = []
    for mode in MODES:
        eager = {**SETTING, "mode": mode, **variant("published"), "tier": "emulate"}
        rows += [
            row(v, metric=m, **eager)
            for m, v in (
                ("event_bytes", 60_000.0),
                ("messages_inside", 390.0),
                ("messages_upward", 10.0),
            )
        ]
        rows += [
            shipped(mode, m, v)
            for m, v in (("rest_bytes", 500.0), ("event_bytes", 9_000.0), ("reliability", 1.0))
        ]
        for c, reached in ((0.0, 0.4), (5.0, 0.95)):
            replayed = {**SETTING, "mode": mode, **variant("improved"), "tier": "replay", "c": c}
            rows.append(row(reached, 0.01, metric="reliability", **replayed))
            rows.append(row(200.0 + 40 * c, metric="messages_inside", **replayed))
            rows.append(row(10.0, metric="messages_upward", **replayed))
    figure = pareto(Aggregates(rows))
    assert figure is not None
    curves = {series.label: series.points for series in figure.panels[0].series}
    curve = curves["structured, eager, c = 0 to 5"]
    assert [point.x for point in curve] == pytest.approx([500 + 150 * n / 62 for n in (210, 410)])
    [dot] = curves["structured, as shipped"]
    assert dot.x == pytest.approx(500 + 9000 / 62)
    # The dots of all three stand at one place, and each is seen.
    drawn = draw(figure)
    assert [size for size in (13, 9, 5) if f"l{size} {size}l" in drawn] == [13, 9, 5]
