"""The one way in which an expression is written, so that equal filters are equal texts.

Keywords in upper case, single spaces, no parentheses but those that are needed. Parsing the text gives the
same expression again.
"""

from __future__ import annotations

from typing import assert_never

from pubsub.filters import syntax
from pubsub.filters.parser import is_plain_name
from pubsub.filters.syntax import Expression, Field, Scalar

_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _SIGN, _VALUE = range(8)
"""Precedences, the loosest first."""


def canonical(expression: Expression) -> str:
    return _write(expression, _OR)


def canonical_field(field: Field) -> str:
    """The path as it is written."""
    if not field.steps:
        return "$"
    text = ""
    for step in field.steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if is_plain_name(step) else _quote(step, '"')
            text += f".{name}" if text else name
    return text if isinstance(field.steps[0], str) else "$" + text


def _write(expression: Expression, floor: int) -> str:
    """The text, in parentheses when it binds more loosely than `floor`."""
    precedence, text = _written(expression)
    return text if precedence >= floor else f"({text})"


def _written(node: Expression) -> tuple[int, str]:
    match node:
        case syntax.Literal(value):
            negative = isinstance(value, int | float) and str(value).startswith("-")
            return (_SIGN if negative else _VALUE), _literal(value)
        case syntax.Field():
            return _VALUE, canonical_field(node)
        case syntax.Negate(operand):
            return _SIGN, "-" + _write(operand, _SIGN)
        case syntax.Arithmetic():
            return _arithmetic(node)
        case syntax.Not(operand):
            return _negation(operand)
        case syntax.All(items):
            return _AND, " AND ".join(_write(item, _NOT) for item in items)
        case syntax.Any(items):
            return _OR, " OR ".join(_write(item, _AND) for item in items)
        case _:
            return _PREDICATE, _predicate(node, "")


def _arithmetic(node: syntax.Arithmetic) -> tuple[int, str]:
    level = _SUM if node.rest[0][0] in "+-" else _PRODUCT
    # The first operand, were it of the same level, would have become part of this one.
    text = _write(node.first, level + 1)
    for operator, operand in node.rest:
        text += f" {operator} {_write(operand, level + 1)}"
    return level, text


def _negation(operand: Expression) -> tuple[int, str]:
    """`a NOT IN b` for `NOT a IN b`, where there is such a form."""
    if isinstance(
        operand, syntax.Between | syntax.In | syntax.InField | syntax.Like | syntax.IsNull
    ):
        return _PREDICATE, _predicate(operand, "NOT ")
    return _NOT, "NOT " + _write(operand, _NOT)


def _predicate(
    node: syntax.Compare
    | syntax.Between
    | syntax.In
    | syntax.InField
    | syntax.Like
    | syntax.IsNull,
    negated: str,
) -> str:
    match node:
        case syntax.Compare(left, operator, right):
            return f"{_write(left, _SUM)} {operator} {_write(right, _SUM)}"
        case syntax.Between(operand, low, high):
            limits = f"{_write(low, _SUM)} AND {_write(high, _SUM)}"
            return f"{_write(operand, _SUM)} {negated}BETWEEN {limits}"
        case syntax.In(operand, items):
            listed = ", ".join(_write(item, _SUM) for item in items)
            return f"{_write(operand, _SUM)} {negated}IN ({listed})"
        case syntax.InField(operand, field):
            return f"{_write(operand, _SUM)} {negated}IN {canonical_field(field)}"
        case syntax.Like(operand, pattern, escape):
            ending = "" if escape is None else f" ESCAPE {_quote(escape, _TEXT)}"
            return f"{_write(operand, _SUM)} {negated}LIKE {_quote(pattern, _TEXT)}{ending}"
        case syntax.IsNull(operand):
            return f"{_write(operand, _SUM)} IS {negated}NULL"
        case _:
            assert_never(node)


_TEXT = "'"


def _literal(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return _quote(value, _TEXT)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return repr(value)


def _quote(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote
