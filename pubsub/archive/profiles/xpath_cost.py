"""What an XPath expression may cost, estimated from its text before it is run.

A step visits each element at most as often as the document is deep, or, when it looks at what precedes or
follows, once for each other. Within a predicate this is done for each node that the predicate is asked about:
one that searches the document makes the cost quadratic, and one within it cubic. libxml2 cannot be
interrupted; so what would take too long is not begun.
"""

from __future__ import annotations

import re

STEP_BUDGET = 3_000_000
"""Visits of elements in one evaluation: some tenths of a second."""
MOST_NESTED_SEARCHES = 2
"""Of predicates that search the document, within one another."""

_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_SEARCH = re.compile(
    r"//|(?<![\w.*\])])/|\b(?:ancestor|descendant)(?:-or-self)?\s*::|\bid\s*\("
    r"|(?P<sideways>\b(?:following|preceding)(?:-sibling)?\s*::)"
)


class XPathCost:
    """The estimate for one expression."""

    def __init__(self, path: str) -> None:
        plain = _LITERAL.sub("''", path)
        self.steps = plain.count("/") + plain.count("[") + plain.count("(") + plain.count("|") + 1
        self.nested_searches = _nested_searches(plain)

    def of(self, elements: int, depth: int) -> int:
        """Visits in a document of so many elements, so deep within one another."""
        return int(self.steps * depth * elements ** (1 + self.nested_searches))


def _nested_searches(plain: str) -> int:
    """The most predicates within one another around a search; one that looks sideways counts as one more."""
    deepest = depth = 0
    place = 0
    while place < len(plain):
        search = _SEARCH.match(plain, place)
        if search:
            deepest = max(deepest, depth + (search["sideways"] is not None))
            place = max(search.end(), place + 1)
            continue
        depth += {"[": 1, "]": -1}.get(plain[place], 0)
        place += 1
    return deepest
