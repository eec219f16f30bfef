"""A verdict says why, names what it is about, and tells after how many networks it was reached."""

from __future__ import annotations

import math

import pytest

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, Part, Verdict, decide
from bench.intervals import FEWEST, Interval
from bench.suites.built_in import DEFAULT, MODES
from tests.bench.claims import flips
from tests.bench.claims.made_up import evidence, replayed, row, verdict


def test_degradation_lists_the_communities_and_tells_which_lose_more() -> None:
    found = evidence("degradation", *flips.CASES["degradation"][1][1]())
    root = next(part for part in found.parts if "a (root)" in part.label)
    assert root.interval.value == pytest.approx(0.39)
    assert found.words == "in part"
    assert "more in a (root)" in found.because


def test_seven_percent_names_the_modes() -> None:
    assert (
        evidence("seven-percent", *flips.CASES["seven-percent"][0][1]()).because
        == "with structured"
    )


def test_only_the_papers_formula_is_called_so() -> None:
    found = evidence("seven-percent", *flips.CASES["seven-percent"][2][1]())
    # (exp(-1))^3 for c = 0 and three communities, and pit nearly 1 but for the root's own.
    assert "the paper's formula gives 5 %" in found.because


def test_table_1_explains_the_difference() -> None:
    rows = flips.CASES["table-1"][1][1]()
    complete = flips.table("table-1", "complete_rounds", "camcast", [9.0, 9.5, 14.0])
    found = evidence("table-1", *rows, *complete)
    assert found.words == "explained"
    assert "8.71" in found.because
    assert "Events that reach everyone take 9.00 / 9.50 / 14.00" in found.because


def test_parasites_are_not_refuted_in_a_number_of_events() -> None:
    found = evidence("no-parasites", *flips.CASES["no-parasites"][0][1]())
    assert found.words == "not refuted"
    assert "not refuted in 1,000 events" in found.because


def test_a_value_that_is_stated_is_held_against_from_both_sides() -> None:
    shared = {"figure": DEFAULT, "metric": "reliability", "failure": "repaired", "community": 0}
    formula = row(0.5, tier="model", networks=1, **shared)
    for value, holds in ((0.1, False), (0.52, True), (0.9, False)):
        ours = row(value, 0.01, tier="replay", mode="structured", networks=10, **shared)
        assert verdict("reliability", formula, ours) is holds


def test_settings_of_too_few_networks_do_not_keep_the_others_from_being_judged() -> None:
    rows = flips.CASES["reliability"][0][1]()
    shared = {"figure": DEFAULT, "metric": "reliability", "failure": "repaired", "failed": 0.5}
    rows.append(row(0.95, tier="model", community=0, networks=1, **shared))
    real = {"tier": "replay", "mode": "structured", "community": 0, "networks": 2}
    rows.append(row(0.1, 0.1, **real, **shared))
    found = evidence("reliability", *rows)
    assert found.holds is True
    assert len(found.parts) == 9


def test_other_parameters_than_the_papers_decide_nothing() -> None:
    rows = [row(0.985, 0.004, community=level, z=9) for level in (-1, 0, 1, 2)]
    rows += [row(0.99, community=level, z=9, protocol="broadcast") for level in (-1, 0, 1, 2)]
    assert "not measured" in evidence("degradation", *rows).because


def test_a_mode_without_its_own_sizes_is_judged_by_the_others() -> None:
    shared = {"metric": "reliability", "sizes": (84, 27, 7)}
    rows = [replayed(mode, 1.0, **shared) for mode in MODES]
    assert evidence("seven-percent", *rows).holds is True


@pytest.mark.parametrize(("networks", "holds"), [(2, True), (10, False)])
def test_a_trend_is_judged_from_the_least_share_with_enough_networks(
    networks: int, holds: bool
) -> None:
    """The least share would have efficiency rise; it does not count where few networks were reached."""
    rows = [
        replayed(mode, value, 0.01, metric="efficiency", community=community, p_sel=p_sel, **fields)
        for mode in MODES
        for community in (1, 2)
        for p_sel, value, fields in (
            (0.01, 0.1, {"networks": networks}),
            (0.05, 0.5, {}),
            (1.0, 0.2, {}),
        )
    ]
    assert verdict("efficiency-falls", *rows) is holds


def test_a_claim_tells_after_how_many_networks_it_was_decided() -> None:
    rows = flips.CASES["structured-first"][0][1]()
    found = {one.claim.name: one for one in decide(CLAIMS, Aggregates(rows))}
    after = found["structured-first"].after
    assert after is not None
    assert 5 <= after <= 10
    assert evidence("structured-first", *(each.first(after) for each in rows)).holds is True
    assert found["tenth"].after is None


def test_an_undecided_claim_tells_what_it_needs() -> None:
    found = evidence("tenth", *flips.CASES["tenth"][1][1]())
    assert found.holds is None
    assert found.wants
    assert set(found.wants) <= {("figures-19-28", "published", mode) for mode in MODES}
    close = evidence("structured-first", *flips.CASES["structured-first"][0][1]())
    assert close.wants == {}


def test_networks_are_asked_for_the_part_that_may_refute_a_claim_soonest() -> None:
    """One part that does not hold is enough: nobody asks for networks of the others."""

    def part(mode: str, low: float, value: float, high: float) -> Part:
        own = replayed(mode, value, 0.01)
        return Part(mode, Interval(low, value, high), 0.9, 1.0, (own,))

    near, far = part("structured", 0.78, 0.84, 0.91), part("unstructured", 0.5, 0.89, 0.95)
    inside = part("semi-structured", 0.8, 0.93, 1.0)
    assert [mode for _, _, mode in Verdict(None, (inside, far, near)).wants] == ["structured"]
    assert [mode for _, _, mode in Verdict(None, (inside,)).wants] == ["semi-structured"]
    assert Verdict(True, (near,)).wants == {}


def test_a_difference_may_need_few_networks_to_be_none() -> None:
    own, other = replayed("structured", 0.5, 0.02), replayed("unstructured", 0.5, 0.02)
    part = Part("difference", Interval(-0.06, 0.001, 0.062), 1e-9, math.inf, (own, other), 0.05)
    assert part.outcome is None
    assert part.needed is not None
    assert part.needed <= 4 * FEWEST


def test_a_difference_that_is_sure_and_does_not_matter_is_none() -> None:
    own, other = replayed("structured", 0.5, 0.02), replayed("unstructured", 0.5, 0.02)
    for low, high, holds in ((0.01, 0.03, False), (0.01, 0.07, True), (-0.01, 0.07, None)):
        part = Part("difference", Interval(low, 0.02, high), 1e-9, math.inf, (own, other), 0.05)
        assert part.outcome is holds
