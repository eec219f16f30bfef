"""The language by examples: what is written, what it means, and what is said about a mistake."""

from __future__ import annotations

import pytest

from pubsub.filters import Filter, FilterError
from pubsub.filters.syntax import DEPTH_LIMIT, NODE_LIMIT, TEXT_LIMIT

TRADE = {
    "price": 12,
    "symbol": "ACME",
    "tags": ["tech", "nyse"],
    "order": {"lines": [{"qty": 3}, {"qty": 5}]},
    "live": True,
    "note": None,
    "odd name": 1,
    "raw": b"\x00\xff",
    "nan": float("nan"),
    "\u0131s": 1,
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("price > 10 AND symbol IN ('ACME', 'B')", True),
        ("price > 10 and symbol in ('A', 'B')", False),
        ("price BETWEEN 12 AND 13", True),
        ("price NOT BETWEEN 12 AND 13", False),
        ("symbol LIKE 'A%E'", True),
        ("symbol LIKE 'A_E'", False),
        ("symbol NOT LIKE '%CM_'", False),
        ("'aba' LIKE 'ab%ba'", False),
        ("\u0131s = 1", True),
        ("'50%' LIKE '50!%' ESCAPE '!'", True),
        ("order.lines[1].qty = 5", True),
        ("order.lines[2].qty = 5", None),
        ("order.lines[0].qty + order.lines[1].qty * 2 = 13", True),
        ("10 - 3 - 2 = 5 AND 12 / 4 / 3 = 1 AND 7 / 2 = 3.5", True),
        ("-7 % 3 = -1 AND 7 % -3 = 1", True),
        ("'tech' IN tags", True),
        ("'gas' NOT IN tags", True),
        ("'a' IN symbol", None),
        ('"odd name" = 1', True),
        ("$.price = 12", True),
        ("raw = X'00FF'", True),
        ("live", True),
        ("NOT live OR price = 12", True),
        ("price", None),
        ("TRUE OR FALSE AND FALSE", True),
    ],
)
def test_what_a_condition_means(text: str, result: bool | None) -> None:
    assert Filter.parse(text).evaluate(TRADE) is result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("missing = 1", None),
        ("missing <> 1", None),
        ("NOT missing = 1", None),
        ("missing = NULL", None),
        ("missing IS NULL", True),
        ("note IS NULL", True),
        ("price IS NOT NULL", True),
        ("missing.deeper.still IS NULL", True),
        ("missing = 1 AND FALSE", False),
        ("missing = 1 OR TRUE", True),
        ("missing = 1 OR FALSE", None),
        ("price IN (1, missing)", None),
        ("price IN (12, missing)", True),
        ("price NOT IN (1, missing)", None),
        ("price BETWEEN 13 AND missing", False),
        ("price / 0 = 1", None),
        ("price % 0 = 1", None),
        ("price + symbol = 1", None),
        ("price = '12'", None),
        ("live = 1", None),
        ("live < TRUE", None),
        ("tags = tags", None),
        ("price + missing IS NULL", True),
        ("nan = nan", None),
        ("nan <> 1", None),
        ("nan IS NULL", False),
    ],
)
def test_what_is_missing_or_makes_no_sense_is_unknown(text: str, result: bool | None) -> None:
    assert Filter.parse(text).evaluate(TRADE) is result


def test_a_condition_on_data_that_is_no_map_uses_the_dollar() -> None:
    assert Filter.parse("$ > 3").matches(4)
    assert Filter.parse("$[0] = 'a'").matches(["a", "b"])
    assert Filter.parse("name IS NULL").matches("just text")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("price>10   and(symbol in('A'))", "price > 10 AND symbol IN ('A')"),
        ("a != 1", "a <> 1"),
        ("not a in (1)", "a NOT IN (1)"),
        ("not (a is null)", "a IS NOT NULL"),
        ("(a and b) and c", "a AND b AND c"),
        ("a and (b or c)", "a AND (b OR c)"),
        ("a - (b - c) > + 2", "a - (b - c) > 2"),
        ("- (5) = a", "-5 = a"),
        ("$.a.\"b\"[0] = 'it''s'", "a.b[0] = 'it''s'"),
        ('"or" = 1', '"or" = 1'),
        ("x = X'FF'", "x = X'ff'"),
    ],
)
def test_equal_filters_are_written_in_one_way(text: str, canonical: str) -> None:
    assert Filter.parse(text).text == canonical
    assert Filter.parse(text) == Filter.parse(canonical)
    assert hash(Filter.parse(text)) == hash(Filter.parse(canonical))


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "a field or a value is expected"),
        ("price >", 7, "a field or a value is expected"),
        ("price > 10 symbol", 11, "AND, OR or the end"),
        ("a = 1 = 2", 6, "AND, OR or the end"),
        ("(a = 1", 6, r"\) is expected"),
        ("a IN 5", 5, "a list in parentheses"),
        ("a IN ()", 6, "a field or a value is expected"),
        ("a LIKE 5", 7, "a text in single quotes"),
        ("a LIKE 'x!' ESCAPE '!'", 7, "the escape character stands before"),
        ("a LIKE 'x' ESCAPE '!!'", 7, "exactly one character"),
        ("a IS 5", 5, "NULL is expected"),
        ("a NOT 5", 6, "BETWEEN, IN or LIKE after NOT"),
        ("a.5 = 1", 1, "AND, OR or the end"),
        ("a[x] = 1", 2, "a number is expected"),
        ("a[1.5] = 1", 2, "a whole number"),
        ("a = 'x", 4, "has no end"),
        ("a = X'0'", 4, "pairs of hexadecimal digits"),
        ("a = 12abc", 4, "put a space between"),
        ("a = 1e", 4, "exponent has no digits"),
        ("a = 1e999", 4, "too large"),
        ("a = 18446744073709551616", 4, "too large"),
        ("a ; b", 2, "means nothing here"),
        ("__import__('os')", 10, "AND, OR or the end"),
        ("a = '\ud800'", 4, "UTF-8 cannot carry"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, position: int, problem: str) -> None:
    with pytest.raises(FilterError, match=problem) as caught:
        Filter.parse(text)
    assert caught.value.position == position
    assert f"at character {position + 1}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + "x" * TEXT_LIMIT + "'",
        "(" * (DEPTH_LIMIT + 1) + "a" + ")" * (DEPTH_LIMIT + 1),
        "NOT " * (DEPTH_LIMIT + 1) + "a",
        "-" * (DEPTH_LIMIT + 1) + "a = 1",
        " OR ".join(["a"] * (NODE_LIMIT + 1)),
        "a IN (" + ",".join(["1"] * NODE_LIMIT) + ")",
        "a+" * (NODE_LIMIT // 2 + 1) + "a = 1",
        "(" * 2000,
        "a=b or " * 400 + "a=b",
    ],
)
def test_a_filter_beyond_the_limits_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        Filter.parse(text)


def test_a_filter_at_the_limits_is_taken() -> None:
    deep = "(" * DEPTH_LIMIT + "a" + ")" * DEPTH_LIMIT
    assert Filter.parse(deep).matches({"a": True})
    wide = " OR ".join(["a"] * (NODE_LIMIT - 1))
    assert Filter.parse(wide).matches({"a": True})


@pytest.mark.parametrize(
    ("text", "is_inside"),
    [
        ("(" * DEPTH_LIMIT + "a" + " BETWEEN 1 AND 2)" * DEPTH_LIMIT, None),
        ("(1 BETWEEN " * DEPTH_LIMIT + "a" + " AND 2)" * DEPTH_LIMIT, None),
        ("(1 BETWEEN 0 AND " * DEPTH_LIMIT + "a" + ")" * DEPTH_LIMIT, None),
        ("a BETWEEN 1 AND " + "(" * DEPTH_LIMIT + "2" + ")" * DEPTH_LIMIT, True),
    ],
)
def test_nesting_does_not_multiply_the_work(text: str, is_inside: bool | None) -> None:
    reads = Reads(a=1)
    assert Filter.parse(text).evaluate(reads) is is_inside
    assert reads.count == 1


class Reads(dict[str, object]):
    """Data that counts how often it is looked into."""

    count = 0

    def get(self, key: str, default: object = None) -> object:
        self.count += 1
        return super().get(key, default)


def test_what_would_take_too_long_is_unknown() -> None:
    text = "a" * 200_000
    assert Filter.parse("$ LIKE '%a_b%'").evaluate(text) is False
    assert Filter.parse("$ LIKE '%a_b%' OR $ LIKE '%a_c%'").evaluate(text) is None
    assert Filter.parse("$ LIKE '%ab%' OR $ LIKE '%ac%'").evaluate(text) is False
    numbers = list(range(100_000))
    assert Filter.parse("-1 IN $ OR -2 IN $").evaluate(numbers) is False
    assert Filter.parse("-1 IN $ OR -2 IN $ OR -3 IN $").evaluate(numbers) is None


def test_a_long_run_with_an_open_place_costs_more_than_a_short_one() -> None:
    text = "a" * 50_000
    for length, result in ((60, False), (240, False), (400, None), (4000, None)):
        run = "a" * (length - 2) + "_b"
        assert Filter.parse(f"$ LIKE '%{run}%'").evaluate(text) is result
        assert Filter.parse(f"$ LIKE '%{run}%'").evaluate("a" * 100) is False
