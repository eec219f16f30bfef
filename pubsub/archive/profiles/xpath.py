"""XPath on XML payloads; needs the extra `xpath`.

The data, or one of its fields, is an XML document as text or bytes. Documents come from strangers, and so do
expressions: entities are not resolved, a document type makes a document none, nothing is fetched, and sizes
and the cost of an evaluation are bounded. Whatever is no such document does not match.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from pubsub.archive.profiles.errors import ProfileError
from pubsub.archive.profiles.xpath_cost import MOST_NESTED_SEARCHES, XPathCost

PATH_LIMIT = 1024
"""Characters of an expression."""
DOCUMENT_LIMIT = 256 * 1024
"""Bytes of a document."""
NAMESPACE_LIMIT = 16


@dataclass(frozen=True, slots=True)
class XPath:
    """The expression gives true, a number other than 0, some text, or at least one node."""

    path: str
    field: str = ""
    """The field of the data that is the document; empty when the data itself is."""
    namespaces: tuple[tuple[str, str], ...] = ()
    """Prefixes that the expression uses, and their namespaces; kept sorted."""
    _evaluate: Any = dataclasses.field(init=False, repr=False, compare=False)
    _cost: XPathCost = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.path) is not str or not 0 < len(self.path) <= PATH_LIMIT:
            raise ProfileError(f"an XPath expression has 1 to {PATH_LIMIT} characters")
        if type(self.field) is not str or len(self.namespaces) > NAMESPACE_LIMIT:
            raise ProfileError(
                f"the field is no name, or there are over {NAMESPACE_LIMIT} namespaces"
            )
        object.__setattr__(self, "namespaces", tuple(sorted(map(tuple, self.namespaces))))
        object.__setattr__(self, "_cost", XPathCost(self.path))
        if self._cost.nested_searches > MOST_NESTED_SEARCHES:
            raise ProfileError(
                f"{self.path!r:.60} searches the document, or compares two sets of nodes, within "
                f"{self._cost.nested_searches} predicates, and {MOST_NESTED_SEARCHES} is the most"
            )
        object.__setattr__(self, "_evaluate", _compiled(self.path, dict(self.namespaces)))

    def matches(self, data: Any) -> bool:
        document = data
        if self.field:
            document = data.get(self.field) if isinstance(data, dict) else None
        root = _parsed(document)
        if root is None or self._cost.is_too_high(len(document), *_elements_and_depth(root)):
            return False
        from lxml import etree

        try:
            return bool(self._evaluate(root.getroottree()))
        except etree.XPathError:
            return False


def _compiled(path: str, namespaces: dict[str, str]) -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise ProfileError("XPath constraints need lxml: install camcast[xpath]") from None
    try:
        return etree.XPath(path, namespaces=namespaces, regexp=False, smart_strings=False)
    except (etree.XPathError, TypeError, ValueError) as error:
        raise ProfileError(f"{path!r:.60} is no XPath expression: {error}") from None


def _elements_and_depth(root: Any) -> tuple[int, int]:
    from lxml import etree

    elements = depth = deepest = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
        elements += event == "start"
    return elements, deepest


def _parsed(document: Any) -> Any:
    """The root element; None for what is no document, or none that is safe."""
    from lxml import etree

    if isinstance(document, str):
        document = document.encode("utf-8", "replace")
    if not isinstance(document, bytes) or len(document) > DOCUMENT_LIMIT:
        return None
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        dtd_validation=False,
        huge_tree=False,
    )
    try:
        root = etree.fromstring(document, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return None if root is None or root.getroottree().docinfo.internalDTD is not None else root
