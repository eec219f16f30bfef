"""Expressions as trees, and how they are written: with parentheses around every part."""

from __future__ import annotations

from dataclasses import dataclass

Scalar = None | bool | int | float | str | bytes


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
    operator: str
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


def written(node: Expression) -> str:
    match node:
        case Literal(value):
            return _literal(value)
        case Field(steps):
            return _field(steps)
        case Negate(operand):
            return f"-{_part(operand)}"
        case Arithmetic(first, rest):
            return _part(first) + "".join(f" {sign} {_part(one)}" for sign, one in rest)
        case Compare(left, sign, right):
            return f"{_part(left)} {sign} {_part(right)}"
        case Between(operand, low, high):
            return f"{_part(operand)} BETWEEN {_part(low)} AND {_part(high)}"
        case In(operand, items):
            return f"{_part(operand)} IN ({', '.join(map(_part, items))})"
        case InField(operand, field):
            return f"{_part(operand)} IN {written(field)}"
        case Like(operand, pattern, escape):
            ending = "" if escape is None else f" ESCAPE {_literal(escape)}"
            return f"{_part(operand)} LIKE {_literal(pattern)}{ending}"
        case IsNull(operand):
            return f"{_part(operand)} IS NULL"
        case Not(operand):
            return f"NOT {_part(operand)}"
        case All(items):
            return " AND ".join(map(_part, items))
        case Any(items):
            return " OR ".join(map(_part, items))


def _part(node: Expression) -> str:
    return written(node) if isinstance(node, Field) else f"({written(node)})"


def _literal(value: Scalar) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return repr(value)


def _field(steps: tuple[str | int, ...]) -> str:
    text = "" if steps and isinstance(steps[0], str) else "$"
    for step in steps:
        name = f"[{step}]" if isinstance(step, int) else '"' + step.replace('"', '""') + '"'
        text += name if isinstance(step, int) or not text else f".{name}"
    return text
