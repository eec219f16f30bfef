"""From text to tokens.

Words are keywords, in whatever case, or names. A name that is a keyword or has other characters is written in
double quotes; texts are written in single quotes. A quote inside is doubled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pubsub.filters.syntax import INTEGER_LIMIT, TEXT_LIMIT, FilterError

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
