"""Figures: nothing measured is lost, what differs is labelled, and formulas are called by their names."""

from __future__ import annotations

import re

import pytest

from bench.aggregates import Aggregate, Aggregates
from bench.report.figures import RECIPES, figures
from bench.report.svg import Figure, Series, draw
from tests.bench.claims.made_up import replayed, row
from tests.bench.report.synthetic import aggregates


def figure(name: str, *rows: Aggregate) -> Figure:
    return next(found for found in figures(Aggregates(rows)) if found.name == name)


def root_lines(name: str, *rows: Aggregate) -> dict[str, Series]:
    return {line.label: line for line in figure(name, *rows).panels[-1].series}


def test_settings_that_differ_are_lines_of_their_own() -> None:
    rows = [
        row(value, community=2, failed=failed, suite="mine", z=z, loss=loss)
        for z, loss, value in ((3, 0.15, 0.5), (9, 0.0, 0.9))
        for failed in (0.0, 0.3)
    ]
    found = root_lines("figure-15", *rows)
    assert set(found) == {
        "uniform, simulated (z = 3, 15 % loss)",
        "uniform, simulated (z = 9, no loss)",
    }
    assert [[point.y for point in line.points] for line in found.values()] == [[0.5] * 2, [0.9] * 2]
    assert len({line.shade for line in found.values()}) == 2


def test_modes_with_sizes_of_their_own_share_a_panel() -> None:
    rows = [
        replayed(mode, 0.9, community=1, p_sel=p_sel)
        for mode in ("unstructured", "structured")
        for p_sel in (0.1, 1.0)
    ]
    panel = figure("figures-19-20", *rows).panels[0]
    assert panel.title == "d (middle): 27 or 28 processes"
    assert [line.label for line in panel.series] == [
        "unstructured as published, replayed",
        "structured as published, replayed",
    ]


def test_the_papers_formula_is_drawn_beside_the_one_with_every_draw_made() -> None:
    shared = {"metric": "reliability", "community": 2, "tier": "model"}
    rows = [row(0.7, failed=0.0, **shared), row(0.3, failed=0.3, **shared)]
    found = root_lines("figure-16", *rows)
    assert [p.y for p in found["formula with every draw made"].points] == [0.7, 0.3]
    paper = found["the paper's formula"].points
    assert paper[0].y == pytest.approx((0.99328 * (1 - 0.15**5)) ** 3, abs=1e-4)


def test_the_papers_formula_knows_nothing_of_reception() -> None:
    rows = [row(0.7, failed=failed, community=2, tier="model") for failed in (0.0, 0.3)]
    assert set(root_lines("figure-15", *rows)) == {"formula with every draw made"}


def test_after_repair_the_papers_formula_is_of_the_living() -> None:
    shared = {"metric": "reliability", "failure": "repaired", "figure": "defaults", "tier": "model"}
    shared |= {"loss": 0.0, "community": 2}
    rows = [row(0.9, failed=failed, **shared) for failed in (0.0, 0.5)]
    none, half = root_lines("crashes-reliability", *rows)["the paper's formula"].points
    assert half.y == pytest.approx(none.y, abs=1e-6)


def test_live_and_emulated_nodes_are_told_apart_without_pointing_at_them() -> None:
    rows = [
        replayed("structured", 0.9, community=2, tier=tier, p_sel=p_sel)
        for tier in ("emulate", "live")
        for p_sel in (0.1, 1.0)
    ]
    drawn = draw(figure("figures-19-20", *rows))
    assert re.findall(r'<(\w+) class="dot', drawn) == ["circle", "circle", "rect", "rect"]
    assert 'class="line emulate"' in drawn
    assert 'class="line live"' in drawn


def test_titles_carry_the_papers_numbers() -> None:
    titles = {recipe.name: recipe.title for recipe in RECIPES}
    assert titles["figure-16"].startswith("Figure 16: ")
    assert titles["figures-27-28"].startswith("Figures 27 and 28: ")


def test_communities_have_one_name_in_every_panel() -> None:
    names = {
        panel.title.partition(":")[0] for found in figures(aggregates()) for panel in found.panels
    }
    assert names == {"g (bottom)", "d (middle)", "a (root)", "all communities"}


def test_a_logarithmic_axis_does_not_follow_what_is_nothing() -> None:
    shared = {"metric": "messages_inside", "community": 2}
    rows = [row(10000.0, failed=0.0, **shared), row(1e-9, failed=0.9, **shared)]
    drawn = draw(figure("figure-13", *rows))
    assert ">10k<" in drawn
    assert "e-0" not in re.sub(r'data-\w+="[^"]*"', "", drawn)


def test_emulated_events_that_were_replayed_too_are_not_drawn_twice() -> None:
    rows = [
        replayed("structured", 0.9, community=2, tier=tier, p_sel=p_sel)
        for tier in ("emulate", "replay")
        for p_sel in (0.1, 1.0)
    ]
    assert set(root_lines("figures-19-20", *rows)) == {"structured as published, replayed"}


@pytest.mark.parametrize(("spread", "kind"), [(0.02, "band"), (0.3, "whisker")])
def test_intervals_do_not_fill_the_frame(spread: float, kind: str) -> None:
    rows = [
        replayed("structured", 0.6, spread, community=2, p_sel=p_sel) for p_sel in (0.1, 0.5, 1.0)
    ]
    drawn = draw(figure("figures-19-20", *rows))
    assert f'class="{kind}"' in drawn
    assert ("band" in kind) == ('class="band"' in drawn)


def test_a_single_place_is_no_figure() -> None:
    assert figures(Aggregates([replayed("structured", 0.9, community=2)])) == []


def test_published_and_improved_tables_of_one_mode_are_told_apart() -> None:
    rows = [
        replayed(
            "structured",
            0.9,
            community=2,
            failed=failed,
            figure="defaults",
            balance=balance,
            metric="reliability",
            failure="repaired",
            p_sel=None,
            c=5.0,
            loss=0.0,
        )
        for balance in (False, True)
        for failed in (0.0, 0.3)
    ]
    found = root_lines("crashes-reliability", *rows)
    assert {label: line.shade for label, line in found.items()} == {
        "structured as improved, replayed": 0,
        "structured as published, replayed": 1,
    }
