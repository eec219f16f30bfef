"""Whatever the expression, the text and the data."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pubsub.filters import Filter, FilterError
from pubsub.filters.evaluation import FilterBudget
from pubsub.filters.like import LikePattern
from pubsub.filters.parser import parse
from pubsub.filters.tokens import KEYWORDS
from tests.pubsub.filters import tree
from tests.pubsub.filters.expressions import data, data_values, expressions, reference
from tests.pubsub.filters.tree import Expression, written

PUNCTUATION = [*"(),.[]$=<+-*/%'!\\é", "<>", "!=", "<="]
VALUES = ["price", "x", "'a'", '"b c"', "1", "2.5", "1e3", "X'00'", '"']
FEW = settings(max_examples=60, deadline=None)

fragments = st.sampled_from([*sorted(KEYWORDS), *PUNCTUATION, *VALUES])


@FEW
@given(expressions)
def test_the_canonical_text_is_its_own_canonical_text(expression: Expression) -> None:
    once = Filter.parse(written(expression))
    assert Filter.parse(once.text) == once
    assert Filter.parse(f"(({once.text}))").text == once.text


@FEW
@given(expressions, data)
def test_evaluation_equals_the_reference(expression: Expression, sample: Any) -> None:
    check_evaluation(expression, sample)


@pytest.mark.sweep
@settings(max_examples=1000, deadline=None)
@given(expressions, data)
def test_evaluation_equals_the_reference_over_many_expressions(
    expression: Expression, sample: Any
) -> None:
    check_evaluation(expression, sample)


def check_evaluation(expression: Expression, sample: Any) -> None:
    wanted = reference(expression, sample)
    with_parentheses = parse(written(expression))
    for part in with_parentheses, parse(with_parentheses.text):
        value = part.value(sample, FilterBudget())
        assert type(value) is type(wanted)
        assert value == wanted or (_is_nan(value) and _is_nan(wanted))


@FEW
@given(expressions, data)
def test_a_filter_matches_only_what_is_known_to_be_true(
    expression: Expression, sample: Any
) -> None:
    wanted = reference(expression, sample)
    wanted = wanted if isinstance(wanted, bool) else None
    made = Filter.parse(written(expression))
    assert made.evaluate(sample) is wanted
    assert made.matches(sample) is (wanted is True)


@FEW
@given(expressions, data)
def test_not_swaps_true_and_false_and_keeps_the_unknown(
    expression: Expression, sample: Any
) -> None:
    condition = Filter.parse(written(expression)).evaluate(sample)
    opposite = Filter.parse(written(tree.Not(expression))).evaluate(sample)
    assert opposite is (None if condition is None else not condition)


@given(st.one_of(st.text(max_size=60), st.lists(fragments, max_size=25).map(" ".join)))
def test_any_text_parses_or_raises_a_filter_error_that_points_into_it(text: str) -> None:
    wrong = None
    try:
        made = Filter.parse(text)
    except FilterError as error:
        wrong = error
    if wrong is None:
        made.text.encode()
        assert Filter.parse(made.text) == made
    else:
        assert 0 <= wrong.position <= len(text)


@FEW
@given(expressions, st.integers(0, 40), st.integers(0, 40))
def test_a_damaged_filter_raises_nothing_but_a_filter_error(
    expression: Expression, begin: int, length: int
) -> None:
    text = written(expression)
    assume(begin < len(text))
    with contextlib.suppress(FilterError):
        Filter.parse(text[:begin] + text[begin + length :])


@pytest.mark.parametrize("thing", [None, 5, b"a = 1", ["a"], 1.5])
def test_what_is_no_text_is_a_filter_error(thing: Any) -> None:
    with pytest.raises(FilterError, match="is text"):
        Filter.parse(thing)


@given(st.text(alphabet="ab%_", max_size=8), st.text(alphabet="ab\n", max_size=12))
def test_like_equals_a_slow_search_over_all_ways_to_fill_in(pattern: str, text: str) -> None:
    assert LikePattern(pattern).matches(text) is _fills_in(pattern, text)


@given(st.text(alphabet="a%_!", max_size=6))
def test_an_escaped_pattern_matches_itself(text: str) -> None:
    pattern = "".join("!" + char if char in "%_!" else char for char in text)
    assert LikePattern(pattern, "!").matches(text)
    assert not LikePattern(pattern, "!").matches(text + "a")


@given(data_values)
def test_no_data_makes_a_filter_raise(sample: Any) -> None:
    text = (
        "a.b[1] * 2 / $ % 3 - -x BETWEEN 1 AND tags OR $ IN tags OR $ LIKE '%_%' OR NOT $[0] < 'a'"
    )
    assert Filter.parse(text).evaluate(sample) in (True, False, None)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _fills_in(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_fills_in(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _fills_in(pattern[1:], text[1:])
