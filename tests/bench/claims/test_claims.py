"""Every claim can be decided either way: change a result and the verdict changes."""

from __future__ import annotations

import pytest

from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, decide
from tests.bench.claims import flips
from tests.bench.claims.made_up import evidence, verdict


def outcome(claim: str, rows: list[Aggregate], expected: bool | str | None) -> bool | str | None:
    """The verdict, or what it is called where that is expected."""
    found = evidence(claim, *rows)
    return found.words if isinstance(expected, str) else found.holds


def test_what_was_not_measured_is_undecided() -> None:
    assert not any(one.verdict.is_decided for one in decide(CLAIMS, Aggregates([])))


@pytest.mark.parametrize("claim", [claim.name for claim in CLAIMS])
def test_a_changed_result_changes_the_verdict(claim: str) -> None:
    cases = flips.CASES[claim]
    assert len({expected for expected, _ in cases}) > 1
    for expected, rows in cases:
        assert outcome(claim, rows(), expected) == expected, claim


@pytest.mark.parametrize("claim", [claim.name for claim in CLAIMS])
def test_the_rows_of_a_second_suite_change_nothing(claim: str) -> None:
    for expected, rows in flips.CASES[claim]:
        once = rows()
        twice = [*once, *flips.of_a_smaller_suite(once)]
        assert outcome(claim, twice, expected) == expected


@pytest.mark.parametrize("claim", flips.OF_REAL_NODES)
def test_few_networks_decide_nothing(claim: str) -> None:
    for _, rows in flips.CASES[claim]:
        assert verdict(claim, *flips.of_few_networks(rows())) is None
