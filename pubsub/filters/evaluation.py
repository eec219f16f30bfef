"""What gives the value of each kind of part of an expression for some data; null is None.

See `pubsub.filters.filter` for the rules of what is null.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pubsub.filters.like import LikePattern
from pubsub.filters.syntax import STEP_LIMIT


class FilterBudget:
    """The work that one evaluation may still do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEP_LIMIT

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise BudgetSpent


class BudgetSpent(Exception):
    """The evaluation would take more work than it may."""


Evaluator = Callable[[Any, FilterBudget], Any]


# Fields.


def field(steps: tuple[str | int, ...]) -> Evaluator:
    if len(steps) == 1 and isinstance(steps[0], str):
        name = steps[0]
        return lambda data, budget: data.get(name) if isinstance(data, dict) else None

    def value(data: Any, budget: FilterBudget) -> Any:
        for step in steps:
            if isinstance(step, str):
                if not isinstance(data, dict):
                    return None
                data = data.get(step)
            else:
                if not isinstance(data, list | tuple) or step >= len(data):
                    return None
                data = data[step]
        return data

    return value


# Numbers.


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def negate(operand: Evaluator) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        number = operand(data, budget)
        return -number if _is_number(number) else None

    return value


def _remainder(left: float, right: float) -> float:
    """The remainder, with the sign of the left operand, as in SQL."""
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return size if left >= 0 else -size
    return math.fmod(left, right)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
}


def arithmetic(first: Evaluator, operands: Sequence[tuple[str, Evaluator]]) -> Evaluator:
    """Operators of one precedence, from left to right."""
    rest = [(_OPERATIONS[sign], operand) for sign, operand in operands]

    def value(data: Any, budget: FilterBudget) -> Any:
        total = first(data, budget)
        if not _is_number(total):
            return None
        for operation, operand in rest:
            number = operand(data, budget)
            if not _is_number(number):
                return None
            try:
                total = operation(total, number)
            except (ArithmeticError, ValueError):
                return None
        return total

    return value


# Comparisons.

COMPARATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _kind(value: Any) -> type | None:
    """What the value may be compared with: values of the same kind; None for nothing at all."""
    cls = type(value)
    if cls is int or cls is float:
        return None if value != value else float
    if cls is str or cls is bytes or cls is bool:
        return cls
    if _is_number(value):
        return None if value != value else float
    return next((kind for kind in (str, bytes) if isinstance(value, kind)), None)


def compare(left: Evaluator, comparator: str, right: Evaluator) -> Evaluator:
    order = COMPARATORS[comparator]
    ordering = comparator not in ("=", "<>")

    def value(data: Any, budget: FilterBudget) -> Any:
        one = left(data, budget)
        kind = _kind(one)
        if kind is None or (ordering and kind is bool):
            return None
        other = right(data, budget)
        return order(one, other) if _kind(other) is kind else None

    return value


def between(operand: Evaluator, low: Evaluator, high: Evaluator) -> Evaluator:
    """What `operand >= low AND operand <= high` is."""

    def value(data: Any, budget: FilterBudget) -> Any:
        one = operand(data, budget)
        kind = _kind(one)
        if kind is None or kind is bool:
            return None
        least = low(data, budget)
        is_above = one >= least if _kind(least) is kind else None
        if is_above is False:
            return False
        most = high(data, budget)
        is_below = one <= most if _kind(most) is kind else None
        return None if is_above is None and is_below else is_below

    return value


def among_values(operand: Evaluator, items: Sequence[Evaluator]) -> Evaluator:
    """True for one that is equal; else unknown when there is one that may be."""
    return lambda data, budget: _among(
        operand(data, budget), (item(data, budget) for item in items)
    )


def among_constants(operand: Evaluator, values: Sequence[Any]) -> Evaluator | None:
    """The same for constants, if they are of one kind: then none of them is looked at by itself."""
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1 or None in kinds:
        return None
    (only,), members = kinds, frozenset(values)

    def value(data: Any, budget: FilterBudget) -> Any:
        one = operand(data, budget)
        return one in members if _kind(one) is only else None

    return value


def in_field(operand: Evaluator, held: Evaluator) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        members = held(data, budget)
        if not isinstance(members, list | tuple):
            return None
        budget.spend(len(members))
        return _among(operand(data, budget), members)

    return value


def _among(value: Any, members: Any) -> bool | None:
    kind = _kind(value)
    result: bool | None = False
    for member in members:
        if kind is None or _kind(member) is not kind:
            result = None
        elif member == value:
            return True
    return result


def like(operand: Evaluator, pattern: LikePattern) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        text = operand(data, budget)
        if not isinstance(text, str):
            return None
        budget.spend(pattern.cost(text))
        return pattern.matches(text)

    return value


# Conditions.


def is_null(operand: Evaluator) -> Evaluator:
    return lambda data, budget: operand(data, budget) is None


def negation(operand: Evaluator) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        condition = operand(data, budget)
        return not condition if isinstance(condition, bool) else None

    return value


def joined(items: list[Evaluator], deciding: bool) -> Evaluator:
    """AND, which one false condition decides, or OR, which one true condition does."""

    def value(data: Any, budget: FilterBudget) -> Any:
        result: bool | None = not deciding
        for item in items:
            condition = item(data, budget)
            if condition is deciding:
                return deciding
            if condition is not (not deciding):
                result = None
        return result

    return value
