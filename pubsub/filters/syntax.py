"""The parts of a parsed expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Word

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
