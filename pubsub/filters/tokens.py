"""From text to tokens.

Words are keywords, in whatever case, or names. A name that is a keyword or has other characters is written in
double quotes; texts are written in single quotes. A quote inside is doubled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pubsub.filters.errors import FilterError
from pubsub.filters.limits import INTEGER_LIMIT, TEXT_LIMIT

Kind = Literal["keyword", "name", "number", "text", "bytes", "symbol", "end"]

KEYWORDS = frozenset(
    ["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"]
)
_SYMBOLS = ("<=", ">=", "<>", "!=", "=", "<", ">", "+", "-", "*", "/", "%")
_MARKS = ("(", ")", ",", ".", "[", "]", "$")
_DIGITS = frozenset("0123456789")


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
    return bool(name) and _word_end(name, 0) == len(name) and not _is_keyword(name)


def _token(text: str, place: int) -> tuple[Token, int]:
    """The token that begins at `place`, and where it ends."""
    char = text[place]
    if char in _DIGITS or (char == "." and text[place + 1 : place + 2] in _DIGITS):
        return _number(text, place)
    if char == "'":
        value, end = _quoted(text, place, "the text")
        return Token("text", value, place), end
    if char in "xX" and text[place + 1 : place + 2] == "'":
        return _bytes(text, place)
    if char == '"':
        value, end = _quoted(text, place, "the name")
        return Token("name", value, place), end
    end = _word_end(text, place)
    if end > place:
        word = text[place:end]
        if _is_keyword(word):
            return Token("keyword", word.upper(), place), end
        return Token("name", word, place), end
    for symbol in (*_SYMBOLS, *_MARKS):
        if text.startswith(symbol, place):
            return Token("symbol", symbol, place), place + len(symbol)
    raise FilterError(f"{char!r} means nothing here", text, place)


def _is_keyword(word: str) -> bool:
    return word.isascii() and word.upper() in KEYWORDS


def _word_end(text: str, place: int) -> int:
    """Where the word at `place` ends; `place` when there is none."""
    end = place
    while end < len(text) and (
        text[end] == "_" or text[end].isalpha() or (end > place and text[end].isalnum())
    ):
        end += 1
    return end


def _quoted(text: str, place: int, what: str) -> tuple[str, int]:
    """What stands in quotes at `place`, and where it ends."""
    quote = text[place]
    parts: list[str] = []
    begin = place + 1
    while True:
        end = text.find(quote, begin)
        if end < 0:
            raise FilterError(f"{what} that begins here has no end", text, place)
        parts.append(text[begin:end])
        if text[end + 1 : end + 2] != quote:
            break
        begin = end + 2
    value = quote.join(parts)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise FilterError(
                f"{what} holds characters that UTF-8 cannot carry", text, place
            ) from None
    return value, end + 1


def _bytes(text: str, place: int) -> tuple[Token, int]:
    digits, end = _quoted(text, place + 1, "the bytes")
    try:
        if not digits.isalnum() and digits:
            raise ValueError
        value = bytes.fromhex(digits)
    except ValueError:
        raise FilterError(
            "bytes are written as pairs of hexadecimal digits, as in X'00ff'", text, place
        ) from None
    return Token("bytes", value, place), end


def _number(text: str, place: int) -> tuple[Token, int]:
    end = _digits_end(text, place)
    whole = True
    if text[end : end + 1] == ".":
        whole = False
        end = _digits_end(text, end + 1)
    if text[end : end + 1] in ("e", "E"):
        whole = False
        begin = end + 2 if text[end + 1 : end + 2] in ("+", "-") else end + 1
        end = _digits_end(text, begin)
        if end == begin:
            raise FilterError("the number's exponent has no digits", text, place)
    if _word_end(text, end) > end:
        raise FilterError("a number ends where a name begins; put a space between", text, place)
    value: int | float = int(text[place:end]) if whole else float(text[place:end])
    if value > INTEGER_LIMIT if whole else value == float("inf"):
        raise FilterError("the number is too large", text, place)
    return Token("number", value, place), end


def _digits_end(text: str, place: int) -> int:
    while place < len(text) and text[place] in _DIGITS:
        place += 1
    return place
