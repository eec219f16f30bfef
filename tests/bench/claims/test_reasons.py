"""A verdict says why, and names what it is about."""

from __future__ import annotations

import pytest

from bench.intervals import wilson
from bench.suites.settings import MODES
from tests.bench.claims import flips
from tests.bench.claims.made_up import emulated, evidence, row, verdict


def test_degradation_lists_the_communities_and_tells_which_lose_more() -> None:
    found = evidence("degradation", *flips.CASES["degradation"][1][1]())
    assert "a (root): 39.0 points" in found.ours
    assert found.words == "in part"
    assert "more in a (root)" in found.because
    unsure = evidence("degradation", *flips.CASES["degradation"][2][1]())
    assert "covers five points" in unsure.because


def test_seven_percent_names_the_modes_and_shows_live_beside() -> None:
    rows = flips.CASES["seven-percent"][0][1]()
    live = emulated("structured", 0.75, 0.1, tier="live", metric="reliability", networks=1)
    found = evidence("seven-percent", *rows, live)
    assert found.because == "with structured"
    assert "live 75.0 %" in found.ours


def test_only_the_papers_formula_is_called_so() -> None:
    found = evidence("seven-percent", *flips.CASES["seven-percent"][2][1]())
    # (exp(-1))^3 for c = 0 and three communities, and pit nearly 1 but for the root's own.
    assert "the paper's formula gives" in found.because
    assert "the paper's formula gives 5.0 %" in found.because


def test_table_1_shows_the_interval_and_explains_the_difference() -> None:
    rows = flips.CASES["table-1"][1][1]()
    complete = flips.table("table-1", "complete_rounds", "camcast", [9.0, 9.5, 14.0])
    found = evidence("table-1", *rows, *complete)
    assert found.words == "explained"
    assert "8.41 [8.36, 8.46]" in found.ours
    assert "9.41" in found.because
    assert "those that reach everyone take 9.00 / 9.50 / 14.00" in found.because


def test_memory_names_the_modes_above_the_bound() -> None:
    found = evidence("memory", *flips.CASES["memory"][1][1]())
    assert "unstructured, emulated: 18.9 contacts in g (bottom) of 1000" in found.because
    assert "uniform, simulated: -0.5" in found.ours


def test_not_refuted_is_what_a_test_of_many_settings_can_say() -> None:
    found = evidence("reliability", *flips.CASES["reliability"][0][1]())
    assert found.words == "not refuted"
    short = evidence("reliability", *flips.CASES["reliability"][2][1]())
    assert "structured, g (bottom) of 1000, 30 % crashed: 50.0 %" in short.because


def test_settings_of_too_few_networks_do_not_keep_the_others_from_being_judged() -> None:
    rows = flips.CASES["reliability"][0][1]()
    shared = {"figure": "crashes-large", "metric": "reliability", "failure": "repaired"}
    rows.append(row(0.95, tier="model", community=0, **shared))
    real = {"tier": "emulate", "mode": "structured", "community": 0, "networks": 1}
    rows.append(row(0.1, 0.1, **real, **shared))
    found = evidence("reliability", *rows)
    assert found.holds is True
    assert "of 9 settings" in found.ours


def test_other_parameters_than_the_papers_decide_nothing() -> None:
    rows = [row(0.985, 0.004, community=level, z=9) for level in (-1, 0, 1, 2)]
    rows += [row(0.99, community=level, z=9, protocol="broadcast") for level in (-1, 0, 1, 2)]
    assert evidence("degradation", *rows).ours == "not measured"


def test_a_mode_without_its_own_sizes_is_judged_by_the_others() -> None:
    shared = {"metric": "reliability", "sizes": (84, 27, 7)}
    bounds = wilson(100, 100)
    rows = [emulated(m, 1.0, low=bounds.low, high=1.0, **shared) for m in MODES]
    assert evidence("seven-percent", *rows).holds is True


@pytest.mark.parametrize(("networks", "holds"), [(2, True), (10, False)])
def test_a_trend_is_judged_from_the_least_share_with_enough_networks(
    networks: int, holds: bool
) -> None:
    """The least share would have efficiency rise; it does not count where few networks were reached."""
    rows = [
        emulated(mode, value, 0.01, metric="efficiency", community=community, p_sel=p_sel, **fields)
        for mode in MODES
        for community in (1, 2)
        for p_sel, value, fields in (
            (0.01, 0.1, {"networks": networks}),
            (0.05, 0.5, {}),
            (1.0, 0.2, {}),
        )
    ]
    assert verdict("efficiency-falls", *rows) is holds
