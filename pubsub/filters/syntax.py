"""The parts of a parsed expression, what an expression may cost, and the error for a text that is not one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Word

from overlay.errors import UsageError

TEXT_LIMIT = 4096
"""Characters of an expression."""

NODE_LIMIT = 512
"""Operators, fields and values in one expression."""

DEPTH_LIMIT = 32
"""Parentheses, NOT and signs within each other."""

STEP_LIMIT = 250_000
"""Work in one evaluation, beyond that of the expression's own nodes, each of which is evaluated once:
elements looked at in a list, characters looked at by LIKE (64 count as one where there is no `_`; between
two `%` with an `_`, each counts once more for every 64 characters there). Tens of milliseconds. What would
take more is unknown, so it does not match."""

INTEGER_LIMIT = 2**64 - 1
"""The largest integer, without its sign, that may be written; msgpack carries no larger one."""


_SHOWN = 24

Scalar = None | bool | int | float | str | bytes

Comparator = Word["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it was written."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Field:
    """A path into the data: names of maps' entries and places in lists; none for the data itself."""

    steps: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operators of one precedence, from left to right: all of `+ -`, or all of `* / %`."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Compare:
    left: Expression
    operator: Comparator
    right: Expression


@dataclass(frozen=True, slots=True)
class Between:
    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class In:
    """Membership in a list that is written out."""

    operand: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class InField:
    """Membership in a list that the data holds."""

    operand: Expression
    field: Field


@dataclass(frozen=True, slots=True)
class Like:
    operand: Expression
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class All:
    """Conditions joined by AND, two or more; none of them is an `All`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Conditions joined by OR, two or more; none of them is an `Any`."""

    items: tuple[Expression, ...]


Expression = (
    Literal
    | Field
    | Negate
    | Arithmetic
    | Compare
    | Between
    | In
    | InField
    | Like
    | IsNull
    | Not
    | All
    | Any
)


class FilterError(UsageError):
    """The text is not a filter; `position` is the character, from 0, at which it goes wrong."""

    def __init__(self, problem: str, text: str = "", position: int = 0) -> None:
        self.problem = problem
        self.position = position
        rest = text[position : position + _SHOWN]
        near = f", before {rest!r}" if rest else ", at its end" if text else ""
        super().__init__(f"the filter is wrong at character {position + 1}{near}: {problem}")
