"""From text to tokens, and from tokens to an expression, by recursive descent.

Words are keywords, in whatever case, or names. A name that is a keyword or has other characters is written in
double quotes; texts are written in single quotes. A quote inside is doubled.

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

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Literal, cast

from pubsub.filters import syntax
from pubsub.filters.like import LikePattern
from pubsub.filters.syntax import (
    DEPTH_LIMIT,
    INTEGER_LIMIT,
    NODE_LIMIT,
    TEXT_LIMIT,
    Comparator,
    Expression,
    FilterError,
)

_COMPARATORS: dict[str, Comparator] = {
    "=": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
Kind = Literal["keyword", "name", "number", "text", "bytes", "symbol", "end"]

KEYWORDS = frozenset(
    ["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"]
)
_WORD = re.compile(r"\w+")
_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2})*")
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]*)?)"
    r"|(?P<bytes>[xX]'(?:[^']|'')*+')"
    r"|(?P<text>'(?:[^']|'')*+')"
    r'|(?P<name>"(?:[^"]|"")*+")'
    r"|(?P<word>\w+)"
    r"|(?P<symbol><=|>=|<>|!=|[-=<>+*/%(),.\[\]$])"
)
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(text: str) -> Expression:
    """The expression that the text is; `FilterError`, with the position, for any other text."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._nodes = 0
        self._depth = 0

    def whole(self) -> Expression:
        expression = self._condition()
        if self._token.kind != "end":
            raise self._expected("AND, OR or the end")
        return expression

    # Conditions.

    def _condition(self) -> Expression:
        return self._joined("OR", syntax.Any, self._all)

    def _all(self) -> Expression:
        return self._joined("AND", syntax.All, self._negation)

    def _joined(
        self, word: str, kind: type[syntax.Any] | type[syntax.All], part: Callable[[], Expression]
    ) -> Expression:
        items = [part()]
        while self._took("keyword", word):
            items.append(part())
        if len(items) == 1:
            return items[0]
        self._count()
        # Those that were the same kind in parentheses are not nested.
        nested = ((item.items if isinstance(item, kind) else (item,)) for item in items)
        return kind(tuple(chain.from_iterable(nested)))

    def _negation(self) -> Expression:
        if not self._took("keyword", "NOT"):
            return self._predicate()
        self._enter()
        operand = self._negation()
        self._depth -= 1
        self._count()
        return syntax.Not(operand)

    def _predicate(self) -> Expression:
        operand = self._sum()
        token = self._token
        if token.kind == "symbol" and token.value in _COMPARATORS:
            self._next += 1
            self._count()
            return syntax.Compare(operand, _COMPARATORS[str(token.value)], self._sum())
        if self._took("keyword", "IS"):
            negated = self._took("keyword", "NOT")
            self._take("keyword", "NULL")
            return self._perhaps_not(negated, syntax.IsNull(operand))
        negated = self._took("keyword", "NOT")
        if self._took("keyword", "BETWEEN"):
            low = self._sum()
            self._take("keyword", "AND")
            return self._perhaps_not(negated, syntax.Between(operand, low, self._sum()))
        if self._took("keyword", "IN"):
            return self._perhaps_not(negated, self._membership(operand))
        if self._took("keyword", "LIKE"):
            return self._perhaps_not(negated, self._like(operand))
        if negated:
            raise self._expected("BETWEEN, IN or LIKE after NOT")
        return operand

    def _perhaps_not(self, negated: bool, predicate: Expression) -> Expression:
        self._count()
        return syntax.Not(predicate) if negated else predicate

    def _membership(self, operand: Expression) -> Expression:
        if self._token.kind == "name" or self._is_symbol("$"):
            return syntax.InField(operand, self._field())
        if not self._took("symbol", "("):
            raise self._expected("a list in parentheses, or a field that holds one, after IN")
        items = [self._sum()]
        while self._took("symbol", ","):
            items.append(self._sum())
        self._take("symbol", ")")
        return syntax.In(operand, tuple(items))

    def _like(self, operand: Expression) -> Expression:
        place = self._token.position
        pattern = str(self._take("text").value)
        escape = str(self._take("text").value) if self._took("keyword", "ESCAPE") else None
        try:
            LikePattern(pattern, escape)
        except ValueError as error:
            raise FilterError(str(error), self._text, place) from None
        return syntax.Like(operand, pattern, escape)

    # Values.

    def _sum(self) -> Expression:
        return self._chain(("+", "-"), self._product())

    def _product(self) -> Expression:
        return self._chain(("*", "/", "%"), self._signed())

    def _chain(self, operators: tuple[str, ...], first: Expression) -> Expression:
        rest: list[tuple[str, Expression]] = []
        operand = self._product if "+" in operators else self._signed
        while self._token.kind == "symbol" and self._token.value in operators:
            operator = str(self._advance().value)
            self._count()
            rest.append((operator, operand()))
        if not rest:
            return first
        if isinstance(first, syntax.Arithmetic) and first.rest[0][0] in operators:
            return syntax.Arithmetic(first.first, (*first.rest, *rest))
        return syntax.Arithmetic(first, tuple(rest))

    def _signed(self) -> Expression:
        if not (self._is_symbol("-") or self._is_symbol("+")):
            return self._value()
        negative = self._advance().value == "-"
        self._enter()
        operand = self._signed()
        self._depth -= 1
        if not negative:
            return operand
        if isinstance(operand, syntax.Literal) and type(operand.value) in (int, float):
            return syntax.Literal(-cast(float, operand.value))
        self._count()
        return syntax.Negate(operand)

    def _value(self) -> Expression:
        token = self._token
        if token.kind in ("number", "text", "bytes"):
            self._next += 1
            self._count()
            return syntax.Literal(token.value)
        if token.kind == "keyword" and token.value in _CONSTANTS:
            self._next += 1
            self._count()
            return syntax.Literal(_CONSTANTS[str(token.value)])
        if token.kind == "name" or self._is_symbol("$"):
            return self._field()
        if not self._took("symbol", "("):
            raise self._expected("a field or a value")
        self._enter()
        inner = self._condition()
        self._depth -= 1
        self._take("symbol", ")")
        return inner

    def _field(self) -> syntax.Field:
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
                return syntax.Field(tuple(steps))

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


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    value: str | int | float | bytes
    """A keyword in upper case, a name or a text without its quotes, a number, a symbol."""
    position: int


def tokenize(text: str) -> list[Token]:
    """All tokens, with an `end` after the last; `FilterError` where there is none."""
    if not isinstance(text, str):
        raise FilterError(f"a filter is text, not {type(text).__name__}")
    if len(text) > TEXT_LIMIT:
        raise FilterError(f"it has {len(text)} characters, and {TEXT_LIMIT} is the limit")
    tokens: list[Token] = []
    place = 0
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text):
            tokens.append(Token("end", "", place))
            return tokens
        token, place = _token(text, place)
        tokens.append(token)


def is_plain_name(name: str) -> bool:
    """Whether the name can be written without quotes."""
    is_word = _WORD.fullmatch(name) is not None and _begins_word(name[0])
    return is_word and not _is_keyword(name)


def _is_keyword(word: str) -> bool:
    return word.isascii() and word.upper() in KEYWORDS


def _begins_word(character: str) -> bool:
    return character == "_" or character.isalpha()


def _token(text: str, place: int) -> tuple[Token, int]:
    """The token that begins at `place`, and where it ends."""
    found = _TOKEN.match(text, place)
    if found is None or (found.lastgroup == "word" and not _begins_word(text[place])):
        what = {"'": "the text", '"': "the name"}.get(text[place])
        why = f"{text[place]!r} means nothing here"
        raise FilterError(f"{what} that begins here has no end" if what else why, text, place)
    written, end = found[0], found.end()
    match found.lastgroup:
        case "number":
            return Token("number", _number(text, place, end), place), end
        case "bytes":
            return Token("bytes", _bytes(text, place, written[2:-1]), place), end
        case "text" | "name" as kind:
            return Token(kind, _unquoted(text, place, written), place), end
        case "word":
            if _is_keyword(written):
                return Token("keyword", written.upper(), place), end
            return Token("name", written, place), end
        case _:
            return Token("symbol", written, place), end


def _unquoted(text: str, place: int, written: str) -> str:
    value = written[1:-1].replace(written[0] * 2, written[0])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FilterError(
            "what begins here holds characters that UTF-8 cannot carry", text, place
        ) from None
    return value


def _bytes(text: str, place: int, digits: str) -> bytes:
    if not _PAIRS.fullmatch(digits):
        raise FilterError(
            "bytes are written as pairs of hexadecimal digits, as in X'00ff'", text, place
        )
    return bytes.fromhex(digits)


def _number(text: str, place: int, end: int) -> int | float:
    written = text[place:end]
    if written[-1] in "eE+-":
        raise FilterError("the number's exponent has no digits", text, place)
    if end < len(text) and _begins_word(text[end]):
        raise FilterError("a number ends where a name begins; put a space between", text, place)
    value: int | float = int(written) if written.isdigit() else float(written)
    if value > INTEGER_LIMIT if isinstance(value, int) else value == float("inf"):
        raise FilterError("the number is too large", text, place)
    return value
