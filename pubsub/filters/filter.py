"""A filter: parsed once, compiled to a function of the data, evaluated often, sent as its canonical text.

Values are null, booleans, numbers, texts, bytes, lists and maps. A field that is missing is null, and
null stands for *unknown*: whatever is computed from it or compared with it is null again, and so is what
makes no sense, such as an order between a number and a text, arithmetic on texts, a division by zero, or
a condition that is not a boolean. AND, OR and NOT follow SQL's three values: `FALSE AND NULL` is false,
`TRUE OR NULL` is true, everything else with a null in it is null. `IS NULL` is the only thing that always
knows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, assert_never

from pubsub.filters import syntax
from pubsub.filters.canonical import canonical
from pubsub.filters.like import LikePattern
from pubsub.filters.parser import parse
from pubsub.filters.syntax import STEP_LIMIT, TEXT_LIMIT, Expression, FilterError


class Filter:
    """A condition on an event's data; equal to another when their canonical texts are.

    Nothing that it is given as data makes it raise."""

    __slots__ = ("_condition", "text")

    text: str
    """The condition in its canonical form, which `parse` takes anywhere."""

    def __init__(self, text: str) -> None:
        expression = parse(text)
        self.text = canonical(expression)
        if len(self.text) > TEXT_LIMIT:
            raise FilterError(
                f"its canonical form has {len(self.text)} characters, and {TEXT_LIMIT} is the limit"
            )
        self._condition = compile_expression(expression)

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The filter that the text is; `FilterError`, with the position, for any other text."""
        return cls(text)

    def matches(self, data: Any) -> bool:
        """Whether the condition is known to be true of the data."""
        return self.evaluate(data) is True

    def evaluate(self, data: Any) -> bool | None:
        """Whether the condition is true of the data; None when that is unknown."""
        try:
            condition = self._condition(data, FilterBudget())
        except BudgetSpent:
            return None
        return condition if isinstance(condition, bool) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter.parse({self.text!r})"


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


def compile_expression(node: Expression) -> Evaluator:
    """What gives the expression's value for some data: null is None."""
    match node:
        case syntax.Literal(value):
            return lambda data, budget: value
        case syntax.Field(steps):
            return _field(steps)
        case syntax.Negate(operand):
            return _negate(compile_expression(operand))
        case syntax.Arithmetic():
            return _arithmetic(node)
        case syntax.Compare():
            return _compare(node)
        case syntax.Between(operand, low, high):
            # Each is compiled and evaluated once, or nesting would double the work at every level.
            return _between(*map(compile_expression, (operand, low, high)))
        case syntax.In():
            return _in(node)
        case syntax.InField(operand, field):
            return _in_field(compile_expression(operand), compile_expression(field))
        case syntax.Like(operand, pattern, escape):
            return _like(compile_expression(operand), LikePattern(pattern, escape))
        case syntax.IsNull(operand):
            inner = compile_expression(operand)
            return lambda data, budget: inner(data, budget) is None
        case syntax.Not(operand):
            return _not(compile_expression(operand))
        case syntax.All(items):
            return _joined([compile_expression(item) for item in items], False)
        case syntax.Any(items):
            return _joined([compile_expression(item) for item in items], True)
        case _:
            assert_never(node)


# Fields.


def _field(steps: tuple[str | int, ...]) -> Evaluator:
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


def _negate(operand: Evaluator) -> Evaluator:
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


def _arithmetic(node: syntax.Arithmetic) -> Evaluator:
    first = compile_expression(node.first)
    rest = [(_OPERATIONS[sign], compile_expression(operand)) for sign, operand in node.rest]

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

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
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


def _compare(node: syntax.Compare) -> Evaluator:
    left, right = compile_expression(node.left), compile_expression(node.right)
    order = _ORDERS[node.operator]
    ordering = node.operator not in ("=", "<>")

    def value(data: Any, budget: FilterBudget) -> Any:
        one = left(data, budget)
        kind = _kind(one)
        if kind is None or (ordering and kind is bool):
            return None
        other = right(data, budget)
        return order(one, other) if _kind(other) is kind else None

    return value


def _between(operand: Evaluator, low: Evaluator, high: Evaluator) -> Evaluator:
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


def _in(node: syntax.In) -> Evaluator:
    """True for one that is equal; else unknown when there is one that may be."""
    operand = compile_expression(node.operand)
    values = [item.value for item in node.items if isinstance(item, syntax.Literal)]
    kinds = [_kind(value) for value in values]
    if len(values) == len(node.items) and kinds[0] is not None and len(set(kinds)) == 1:
        only, members = kinds[0], frozenset(values)

        def among_constants(data: Any, budget: FilterBudget) -> Any:
            value = operand(data, budget)
            return value in members if _kind(value) is only else None

        return among_constants
    items = [compile_expression(item) for item in node.items]

    def among_values(data: Any, budget: FilterBudget) -> Any:
        return _among(operand(data, budget), (item(data, budget) for item in items))

    return among_values


def _in_field(operand: Evaluator, field: Evaluator) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        members = field(data, budget)
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


def _like(operand: Evaluator, pattern: LikePattern) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        text = operand(data, budget)
        if not isinstance(text, str):
            return None
        budget.spend(pattern.cost(text))
        return pattern.matches(text)

    return value


# Conditions.


def _not(operand: Evaluator) -> Evaluator:
    def value(data: Any, budget: FilterBudget) -> Any:
        condition = operand(data, budget)
        return not condition if isinstance(condition, bool) else None

    return value


def _joined(items: list[Evaluator], deciding: bool) -> Evaluator:
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
