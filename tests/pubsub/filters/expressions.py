"""Generated expressions and data, and an evaluator that is written to be read rather than to be fast."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.pubsub.filters import tree
from tests.pubsub.filters.tree import Expression

NAMES = ("price", "symbol", "tags", "order", "and", "odd name", 'say "hi"', "größe", "x")

names = st.sampled_from(NAMES)
numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0.5, 1e308]),
)
texts = st.text(alphabet="ab%_'\"\\ é", max_size=6)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=3))
data_values = st.recursive(
    st.one_of(scalars, st.just(float("nan")), st.just(float("inf"))),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=8,
)
data = st.one_of(st.dictionaries(names, data_values, max_size=6), data_values)

fields = st.lists(st.one_of(names, st.integers(0, 3)), max_size=3).map(
    lambda steps: tree.Field(tuple(steps))
)
literals = scalars.map(tree.Literal)


def _negated(operand: Expression) -> Expression:
    if isinstance(operand, tree.Literal) and type(operand.value) in (int, float):
        return tree.Literal(-operand.value)  # type: ignore[operator]
    return tree.Negate(operand)


def _chained(signs: str) -> Any:
    def build(first: Expression, rest: list[tuple[str, Expression]]) -> Expression:
        if isinstance(first, tree.Arithmetic) and first.rest[0][0] in signs:
            return tree.Arithmetic(first.first, (*first.rest, *rest))
        return tree.Arithmetic(first, tuple(rest))

    return build


def _joined(kind: Any) -> Any:
    def build(items: list[Expression]) -> Expression:
        flat: list[Expression] = []
        for item in items:
            flat += item.items if isinstance(item, kind) else [item]
        return kind(tuple(flat))  # type: ignore[no-any-return]

    return build


def _larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3)

    def tail(signs: str) -> Any:
        return st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=2)

    return st.one_of(
        inner.map(_negated),
        st.builds(_chained("+-"), inner, tail("+-")),
        st.builds(_chained("*/%"), inner, tail("*/%")),
        st.builds(tree.Compare, inner, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), inner),
        st.builds(tree.Between, inner, inner, inner),
        st.builds(tree.In, inner, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(tree.In, inner, st.lists(literals, min_size=1, max_size=3).map(tuple)),
        st.builds(tree.InField, inner, fields),
        st.builds(tree.Like, inner, texts, st.none()),
        inner.map(tree.IsNull),
        inner.map(tree.Not),
        several.map(_joined(tree.All)),
        several.map(_joined(tree.Any)),
    )


expressions = st.recursive(st.one_of(fields, literals), _larger, max_leaves=10)


# The reference evaluator.


def reference(node: Expression, data: Any) -> Any:
    """The value of the expression, null being None; each rule of the language as it is stated."""
    match node:
        case tree.Literal(value):
            return value
        case tree.Field(steps):
            return _look_up(data, steps)
        case tree.Negate(operand):
            number = reference(operand, data)
            return 0 - number if _number(number) and number != 0 else _minus_zero(number)
        case tree.Arithmetic(first, rest):
            total = reference(first, data)
            for sign, operand in rest:
                total = _calculate(total, sign, reference(operand, data))
            return total if _number(total) else None
        case tree.Compare(left, sign, right):
            return _compared(reference(left, data), sign, reference(right, data))
        case tree.Between(operand, low, high):
            value = reference(operand, data)
            return _and(
                _compared(value, ">=", reference(low, data)),
                _compared(value, "<=", reference(high, data)),
            )
        case tree.In(operand, items):
            value = reference(operand, data)
            return _one_of(value, [reference(item, data) for item in items])
        case tree.InField(operand, field):
            held = reference(field, data)
            return _one_of(reference(operand, data), held) if isinstance(held, list) else None
        case tree.Like(operand, pattern, escape):
            assert escape is None
            text = reference(operand, data)
            return _matches(pattern, text) if isinstance(text, str) else None
        case tree.IsNull(operand):
            return reference(operand, data) is None
        case tree.Not(operand):
            return {True: False, False: True}.get(_condition(reference(operand, data)))  # type: ignore[arg-type]
        case tree.All(items):
            result: bool | None = True
            for item in items:
                result = _and(result, _condition(reference(item, data)))
            return result
        case tree.Any(items):
            conditions = [_condition(reference(item, data)) for item in items]
            return True if True in conditions else None if None in conditions else False


def _look_up(data: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        wanted: type = dict if isinstance(step, str) else list
        if not isinstance(data, wanted):
            return None
        try:
            data = data[step]  # type: ignore[index]
        except (KeyError, IndexError):
            return None
    return data


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _minus_zero(number: Any) -> Any:
    return -number if _number(number) else None


def _calculate(left: Any, sign: str, right: Any) -> Any:
    if not _number(left) or not _number(right):
        return None
    if sign in "/%" and right == 0:
        return None
    try:
        if sign == "%" and type(left) is int and type(right) is int:
            quotient = Fraction(left, right)
            return left - right * (math.floor(quotient) if quotient >= 0 else math.ceil(quotient))
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
            "%": lambda: math.fmod(left, right),
        }[sign]()
    except (OverflowError, ValueError):
        return None


def _group(value: Any) -> str | None:
    if value is None or isinstance(value, list | dict) or value != value:
        return None
    return "number" if _number(value) else type(value).__name__


def _compared(left: Any, sign: str, right: Any) -> bool | None:
    if _group(left) is None or _group(left) != _group(right):
        return None
    if sign in ("=", "<>"):
        return bool(left == right) is (sign == "=")
    if isinstance(left, bool):
        return None
    place = (left > right) - (left < right)
    return {"<": place < 0, "<=": place <= 0, ">": place > 0, ">=": place >= 0}[sign]


def _one_of(value: Any, members: list[Any]) -> bool | None:
    found = [_compared(value, "=", member) for member in members]
    return True if True in found else None if None in found else False


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True


def _condition(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _matches(pattern: str, text: str) -> bool:
    regular = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regular, text, re.DOTALL) is not None
