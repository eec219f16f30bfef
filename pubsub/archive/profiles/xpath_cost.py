"""What an XPath expression may cost, estimated from its text before it is run.

A step visits each element at most as often as the document is deep, or, when it looks at what precedes or
follows, once for each other. Within a predicate this is done for each node that the predicate is asked about:
one that searches the document makes the cost quadratic, and one within it cubic. Two sets of nodes are
compared each with each. Text costs by the character: an element's text is that of all elements within it, and
a predicate that looks outside its node may take the whole document's text for each node. libxml2 cannot be
interrupted; so what would take too long is not begun.
"""

from __future__ import annotations

import re

from pubsub.archive.profiles.errors import ProfileError

STEP_BUDGET = 3_000_000
"""Visits of elements in one evaluation: some tenths of a second."""
TEXT_BUDGET = 1_000_000_000
"""Characters looked at in one evaluation, if it is as dear as can be: a tenth of a second, rarely more."""
MOST_NESTED_SEARCHES = 2
"""Of predicates that search the document, within one another."""
TRANSLATE = 4
"""How much more than a comparison it costs to look a character up in the alphabet of `translate`."""

_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_SEARCH = re.compile(
    r"//|(?<![\w.*\])])/|\b(?:ancestor|descendant)(?:-or-self)?\s*::|\bid\s*\("
    r"|(?P<sideways>\b(?:following|preceding)(?:-sibling)?\s*::)"
)
_OUTSIDE = re.compile(_SEARCH.pattern + r"|(?<!\.)\.\.|\bparent\s*::")
"""What leads to nodes that are not within the node that a predicate is asked about."""
_COMPARISON = re.compile(r"!=|<=?|>=?|=")
_TEXT = re.compile(r"[=<>+*]|\w\s*\(")
"""Whatever may turn nodes into text: comparisons, arithmetic, functions."""
_SCALAR_BEFORE = re.compile(r"(?:''|\d|@[\w:.-]+|[\w-]\s*\([^()]*\))\s*$")
_SCALAR_AFTER = re.compile(r"\s*(?:''|-?\s*\.?\d|@[\w:.-]+\s*(?:$|[^\w\s/:.-])|[\w-]+\s*\()")
"""Operands that are one value: a literal, a number, an attribute, what a function gives."""
_SEARCHING = re.compile(r"\b(contains|substring-before|substring-after|translate)\s*\(")
"""Functions whose cost is a product: their text by the length of their second argument."""


class XPathCost:
    """The estimate for one expression; `ProfileError` for one that cannot be estimated."""

    def __init__(self, path: str) -> None:
        plain = _LITERAL.sub("''", path)
        self.steps = plain.count("/") + plain.count("[") + plain.count("(") + plain.count("|") + 1
        self.nested_searches = _most_nested(plain, _SEARCH) + _compares_sets(plain)
        self._outside = _most_nested(plain, _OUTSIDE)
        self._text_steps = len(_TEXT.findall(plain)) and self.steps
        self._a_character = sum(_costs_of_searching(path), start=1)

    def of(self, elements: int, depth: int) -> int:
        """Visits in a document of so many elements, so deep within one another."""
        return int(self.steps * depth * elements ** (1 + self.nested_searches))

    def of_text(self, size: int, elements: int, depth: int) -> int:
        """Characters looked at in a document of `size` bytes."""
        times: int = max(depth, elements**self._outside)
        return self._text_steps * self._a_character * size * times

    def is_too_high(self, size: int, elements: int, depth: int) -> bool:
        """Whether it is over one of the budgets."""
        return (
            self.of(elements, depth) > STEP_BUDGET
            or self.of_text(size, elements, depth) > TEXT_BUDGET
        )


def _most_nested(plain: str, pattern: re.Pattern[str]) -> int:
    """The most predicates within one another around a match; one that looks sideways counts as one more."""
    deepest = depth = 0
    place = 0
    while place < len(plain):
        found = pattern.match(plain, place)
        if found:
            deepest = max(deepest, depth + (found["sideways"] is not None))
            place = max(found.end(), place + 1)
            continue
        depth += {"[": 1, "]": -1}.get(plain[place], 0)
        place += 1
    return deepest


def _compares_sets(plain: str) -> bool:
    """Whether two operands are compared of which neither is certain to be one value."""
    return any(
        not _SCALAR_BEFORE.search(plain[: found.start()])
        and not _SCALAR_AFTER.match(plain[found.end() :])
        for found in _COMPARISON.finditer(plain)
    )


def _costs_of_searching(path: str) -> list[int]:
    """For each function that searches text, what it costs a character; its second argument is a literal."""
    blank = _LITERAL.sub(lambda found: "'" + "_" * (len(found[0]) - 2) + "'", path)
    costs = []
    for found in _SEARCHING.finditer(blank):
        sought = _second_argument(blank[found.end() :])
        if not _LITERAL.fullmatch(sought):
            raise ProfileError(
                f"{path!r:.60} has no literal in quotes as the second argument of {found[1]}: what it costs "
                "to evaluate is not known"
            )
        costs.append((len(sought) - 2) * (TRANSLATE if found[1] == "translate" else 1))
    return costs


def _second_argument(rest: str) -> str:
    """Of a call, whose arguments and whatever comes after them are `rest`."""
    depth, commas, argument = 0, 0, ""
    quoted = False
    for character in rest:
        quoted = quoted != (character == "'")
        if not quoted:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
            if depth < 0 or (character == "," and depth == 0 and commas == 1):
                break
            if character == "," and depth == 0:
                commas += 1
                continue
        if commas == 1:
            argument += character
    return argument.strip()
