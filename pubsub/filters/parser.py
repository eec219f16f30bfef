"""From tokens to an expression, by recursive descent: each part is written in the canonical form, and made a
function of the data, as soon as it is read.

The canonical form is the one way in which an expression is written, so that equal filters are equal texts:
keywords in upper case, single spaces, no parentheses but those that are needed. Parsing it gives the same
expression again.

condition   := all { OR all }
all         := negation { AND negation }
negation    := NOT negation | predicate
predicate   := sum [ comparator sum
                   | [NOT] BETWEEN sum AND sum
                   | [NOT] IN ( "(" sum { "," sum } ")" | field )
                   | [NOT] LIKE text [ESCAPE text]
                   | IS [NOT] NULL ]
sum         := product { ("+" | "-") product }
product     := signed { ("*" | "/" | "%") signed }
signed      := ("-" | "+") signed | value
value       := number | text | bytes | TRUE | FALSE | NULL | field | "(" condition ")"
field       := ( name | "$" ) { "." name | "[" whole number "]" }
comparator  := "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pubsub.filters import evaluation
from pubsub.filters.evaluation import COMPARATORS, Evaluator
from pubsub.filters.like import LikePattern
from pubsub.filters.syntax import DEPTH_LIMIT, NODE_LIMIT, FilterError
from pubsub.filters.tokens import Kind, Token, is_plain_name, tokenize

_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _SIGN, _VALUE = range(8)
"""How tightly a part binds, the loosest first."""
_COMPUTED: Final = object()
"""The constant of what is none."""


class Part(NamedTuple):
    """A part of an expression."""

    text: str
    """In the canonical form."""
    level: int
    value: Evaluator
    constant: Any = _COMPUTED
    """The value, where it is written out."""
    opposite: str = ""
    """How NOT before it is written, where it has a place within: `a NOT IN b` for `NOT a IN b`."""

    def within(self, floor: int) -> str:
        """The text, in parentheses when it binds more loosely than `floor`."""
        return self.text if self.level >= floor else f"({self.text})"


def _literal(value: Any) -> Part:
    if value is None or isinstance(value, bool):
        text = {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    elif isinstance(value, str):
        text = _quoted(value, "'")
    else:
        text = f"X'{value.hex()}'" if isinstance(value, bytes) else repr(value)
    return Part(text, _SIGN if text[0] == "-" else _VALUE, lambda data, budget: value, value)


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote


def _field(steps: Sequence[str | int]) -> Part:
    text = "" if steps and isinstance(steps[0], str) else "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if is_plain_name(step) else _quoted(step, '"')
            text += f".{name}" if text else name
    return Part(text, _VALUE, evaluation.field(tuple(steps)))


def parse(text: str) -> Part:
    """The expression that the text is; `FilterError`, with the position, for any other text."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._nodes = 0
        self._depth = 0

    def whole(self) -> Part:
        expression = self._condition()
        if self._token.kind != "end":
            raise self._expected("AND, OR or the end")
        return expression

    # Conditions.

    def _condition(self) -> Part:
        return self._joined("OR", _OR, self._all)

    def _all(self) -> Part:
        return self._joined("AND", _AND, self._negation)

    def _joined(self, word: str, level: int, part: Callable[[], Part]) -> Part:
        items = [part()]
        while self._took("keyword", word):
            items.append(part())
        if len(items) == 1:
            return items[0]
        self._count()
        # Those that are of the same level were joined by the same word in parentheses, which are not needed.
        text = f" {word} ".join(item.within(level) for item in items)
        return Part(text, level, evaluation.joined([item.value for item in items], level == _OR))

    def _negation(self) -> Part:
        if not self._took("keyword", "NOT"):
            return self._predicate()
        self._enter()
        operand = self._negation()
        self._depth -= 1
        self._count()
        return _not(operand)

    def _predicate(self) -> Part:
        operand = self._sum()
        token = self._token
        comparator = "<>" if token.value == "!=" else token.value
        if token.kind == "symbol" and comparator in COMPARATORS:
            self._next += 1
            self._count()
            return _compared(operand, str(comparator), self._sum())
        if self._took("keyword", "IS"):
            negated = self._took("keyword", "NOT")
            self._take("keyword", "NULL")
            is_null = evaluation.is_null(operand.value)
            return self._predicate_of(operand, "IS", "NULL", is_null, negated, behind=True)
        negated = self._took("keyword", "NOT")
        if self._took("keyword", "BETWEEN"):
            low = self._sum()
            self._take("keyword", "AND")
            high = self._sum()
            limits = f"{low.within(_SUM)} AND {high.within(_SUM)}"
            between = evaluation.between(operand.value, low.value, high.value)
            return self._predicate_of(operand, "BETWEEN", limits, between, negated)
        if self._took("keyword", "IN"):
            return self._predicate_of(operand, "IN", *self._membership(operand), negated)
        if self._took("keyword", "LIKE"):
            return self._predicate_of(operand, "LIKE", *self._like(operand), negated)
        if negated:
            raise self._expected("BETWEEN, IN or LIKE after NOT")
        return operand

    def _predicate_of(
        self,
        operand: Part,
        word: str,
        rest: str,
        value: Evaluator,
        negated: bool,
        *,
        behind: bool = False,
    ) -> Part:
        """`behind`: NOT stands behind the word."""
        self._count()
        words = f"{word} NOT" if behind else f"NOT {word}"
        text, opposite = (f"{operand.within(_SUM)} {one} {rest}" for one in (word, words))
        predicate = Part(text, _PREDICATE, value, opposite=opposite)
        return _not(predicate) if negated else predicate

    def _membership(self, operand: Part) -> tuple[str, Evaluator]:
        if self._token.kind == "name" or self._is_symbol("$"):
            field = self._field()
            return field.text, evaluation.in_field(operand.value, field.value)
        if not self._took("symbol", "("):
            raise self._expected("a list in parentheses, or a field that holds one, after IN")
        items = [self._sum()]
        while self._took("symbol", ","):
            items.append(self._sum())
        self._take("symbol", ")")
        text = f"({', '.join(item.within(_SUM) for item in items)})"
        constants = [item.constant for item in items]
        among = None
        if _COMPUTED not in constants:
            among = evaluation.among_constants(operand.value, constants)
        return text, among or evaluation.among_values(operand.value, [one.value for one in items])

    def _like(self, operand: Part) -> tuple[str, Evaluator]:
        place = self._token.position
        pattern = str(self._take("text").value)
        text, escape = _quoted(pattern, "'"), None
        if self._took("keyword", "ESCAPE"):
            escape = str(self._take("text").value)
            text += f" ESCAPE {_quoted(escape, chr(39))}"
        try:
            return text, evaluation.like(operand.value, LikePattern(pattern, escape))
        except ValueError as error:
            raise FilterError(str(error), self._text, place) from None

    # Values.

    def _sum(self) -> Part:
        return self._chain(_SUM, ("+", "-"), self._product)

    def _product(self) -> Part:
        return self._chain(_PRODUCT, ("*", "/", "%"), self._signed)

    def _chain(self, level: int, operators: tuple[str, ...], operand: Callable[[], Part]) -> Part:
        first, rest = operand(), list[tuple[str, Part]]()
        while self._token.kind == "symbol" and self._token.value in operators:
            operator = str(self._advance().value)
            self._count()
            rest.append((operator, operand()))
        if not rest:
            return first
        text = first.within(level)
        for operator, part in rest:
            text += f" {operator} {part.within(level + 1)}"
        values = [(operator, part.value) for operator, part in rest]
        return Part(text, level, evaluation.arithmetic(first.value, values))

    def _signed(self) -> Part:
        if not (self._is_symbol("-") or self._is_symbol("+")):
            return self._value()
        negative = self._advance().value == "-"
        self._enter()
        operand = self._signed()
        self._depth -= 1
        if not negative:
            return operand
        if type(operand.constant) in (int, float):
            return _literal(-operand.constant)
        self._count()
        return Part(f"-{operand.within(_SIGN)}", _SIGN, evaluation.negate(operand.value))

    def _value(self) -> Part:
        token = self._token
        if token.kind in ("number", "text", "bytes"):
            self._next += 1
            self._count()
            return _literal(token.value)
        if token.kind == "keyword" and token.value in _CONSTANTS:
            self._next += 1
            self._count()
            return _literal(_CONSTANTS[str(token.value)])
        if token.kind == "name" or self._is_symbol("$"):
            return self._field()
        if not self._took("symbol", "("):
            raise self._expected("a field or a value")
        self._enter()
        inner = self._condition()
        self._depth -= 1
        self._take("symbol", ")")
        return inner

    def _field(self) -> Part:
        self._count()
        token = self._advance()
        steps: list[str | int] = [] if token.kind == "symbol" else [str(token.value)]
        while True:
            if self._took("symbol", "."):
                steps.append(str(self._take("name").value))
            elif self._took("symbol", "["):
                token = self._take("number")
                if not isinstance(token.value, int):
                    raise FilterError(
                        "a place in a list is a whole number, from 0", self._text, token.position
                    )
                steps.append(token.value)
                self._take("symbol", "]")
            else:
                return _field(steps)

    # Tokens and limits.

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _advance(self) -> Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _is_symbol(self, symbol: str) -> bool:
        return self._token.kind == "symbol" and self._token.value == symbol

    def _took(self, kind: Kind, value: str) -> bool:
        """Pass over the token if it is this one."""
        if self._token.kind != kind or self._token.value != value:
            return False
        self._next += 1
        return True

    def _take(self, kind: Kind, value: str | None = None) -> Token:
        token = self._token
        if token.kind != kind or (value is not None and token.value != value):
            named = {"text": "a text in single quotes", "name": "a name", "number": "a number"}
            raise self._expected(named[kind] if value is None else value)
        return self._advance()

    def _expected(self, what: str) -> FilterError:
        return FilterError(f"{what} is expected here", self._text, self._token.position)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > NODE_LIMIT:
            raise FilterError(
                f"it has more than {NODE_LIMIT} operators, fields and values",
                self._text,
                self._token.position,
            )

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise FilterError(
                f"it nests deeper than {DEPTH_LIMIT} levels", self._text, self._token.position
            )


def _not(operand: Part) -> Part:
    value = evaluation.negation(operand.value)
    if operand.opposite:
        return Part(operand.opposite, _PREDICATE, value)
    return Part(f"NOT {operand.within(_NOT)}", _NOT, value)


def _compared(left: Part, comparator: str, right: Part) -> Part:
    text = f"{left.within(_SUM)} {comparator} {right.within(_SUM)}"
    return Part(text, _PREDICATE, evaluation.compare(left.value, comparator, right.value))
