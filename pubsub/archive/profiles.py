"""Profiles: constraints that an event's data must satisfy, all of them (section 3.1).

An entity may have several profiles on a topic; an event is for it when it satisfies one. On the wire and in
a store a profile is its canonical bytes: equal profiles have equal bytes, in whatever order their
constraints were written.

    Profile.of(Tag("league", "serie-a"), Selector("minute > 80 AND score LIKE '%:0'"))
    Profile.of(XPath("//goal[@team='Roma']"))

The simple constraints: the data, or one of its fields, is a given string or integer (`Equals`, `Tag`), or an
SQL-like condition in the language of `pubsub.filters` holds for it (`Selector`).

XPath is for XML payloads, and needs the extra `xpath`. What an expression may cost is estimated from its text
before it is run. A step visits each element at most as often as the document is deep, or, when it looks at
what precedes or follows, once for each other. Within a predicate this is done for each node that the
predicate is asked about: one that searches the document makes the cost quadratic, and one within it cubic.
Two sets of nodes are compared each with each. Text costs by the character: an element's text is that of all
elements within it, and a predicate that looks outside its node may take the whole document's text for each
node. libxml2 cannot be interrupted; so what would take too long is not begun.

The data, or one of its fields, is an XML document as text or bytes. Documents come from strangers, and so
do expressions: entities are not resolved, a document type makes a document none, nothing is fetched, and
sizes and the cost of an evaluation are bounded. Text that is not such a document does not match.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.filters import Filter


class ProfileError(UsageError):
    """The constraint or profile is none; the text says what is wrong with it."""


VALUE_LIMIT = 1024
"""Characters of a string that is compared with, or of a tag."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The data is this string or this integer, and nothing else."""

    value: str | int

    def __post_init__(self) -> None:
        check_value(self.value)

    def matches(self, data: Any) -> bool:
        return is_same(data, self.value)


@dataclass(frozen=True, slots=True)
class Tag:
    """The data is a map in which this tag has this value."""

    tag: str
    value: str | int

    def __post_init__(self) -> None:
        if type(self.tag) is not str or len(self.tag) > VALUE_LIMIT:
            raise ProfileError(
                f"{self.tag!r:.40} is not a valid tag: a tag is a string of at most {VALUE_LIMIT} characters"
            )
        check_value(self.value)

    def matches(self, data: Any) -> bool:
        return isinstance(data, dict) and is_same(data.get(self.tag), self.value)


def is_same(one: Any, value: str | int) -> bool:
    """Whether two values are equal and of the same type: 1 is neither True nor 1.0."""
    return type(one) is type(value) and one == value


def check_value(value: Any) -> None:
    if type(value) is str and len(value) <= VALUE_LIMIT:
        return
    if type(value) is int and -(2**63) <= value < 2**64:
        return
    raise ProfileError(
        f"{value!r:.40} cannot be compared with: it must be an integer of 64 bits or a string"
        f" of {VALUE_LIMIT} characters at most"
    )


@dataclass(frozen=True, slots=True)
class Selector:
    """The condition is known to be true of the data. Its text is kept in the canonical form."""

    text: str
    _filter: Filter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            raise ProfileError("a selector must be a string")
        condition = Filter.parse(self.text)
        object.__setattr__(self, "text", condition.text)
        object.__setattr__(self, "_filter", condition)

    def matches(self, data: Any) -> bool:
        return self._filter.matches(data)


STEP_BUDGET = 3_000_000
"""Visits of elements in one evaluation: some tenths of a second."""
TEXT_BUDGET = 1_000_000_000
"""Characters looked at in one evaluation, if it is as dear as can be: a tenth of a second, rarely more."""
MOST_NESTED_SEARCHES = 2
"""How deep predicates that search the document may be nested."""
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
        """Visits in a document of `elements` elements, which are at most `depth` deep within one another."""
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
    """The second argument of a call; `rest` is the call's arguments and the text after them."""
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
                f"the field is not a name, or there are over {NAMESPACE_LIMIT} namespaces"
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
        raise ProfileError("XPath constraints need lxml: pip install 'camcast[xpath]'") from None
    try:
        return etree.XPath(path, namespaces=namespaces, regexp=False, smart_strings=False)
    except (etree.XPathError, TypeError, ValueError) as error:
        raise ProfileError(f"{path!r:.60} is not an XPath expression: {error}") from None


def _elements_and_depth(root: Any) -> tuple[int, int]:
    from lxml import etree

    elements = depth = deepest = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
        elements += event == "start"
    return elements, deepest


def _parsed(document: Any) -> Any:
    """The root element; None for a value that is not a document, or not a safe one."""
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


CONSTRAINT_LIMIT = 16
"""Constraints of a profile."""
PACKED_LIMIT = 16 * 1024
"""Bytes of a profile on the wire."""

Constraint = Equals | Tag | Selector | XPath

_EQUALS, _TAG, _SELECTOR, _XPATH = 1, 2, 3, 4
"""Kinds on the wire."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Satisfied by everything when it has no constraints."""

    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise ProfileError(f"{constraint!r:.60} is not a constraint of a profile")
        ordered = {_packed(constraint): constraint for constraint in self.constraints}
        if len(ordered) > CONSTRAINT_LIMIT:
            raise ProfileError(
                f"a profile has {len(ordered)} constraints, and {CONSTRAINT_LIMIT} is the limit"
            )
        object.__setattr__(self, "constraints", tuple(ordered[key] for key in sorted(ordered)))
        if len(self.packed()) > PACKED_LIMIT:
            raise ProfileError(f"a profile has more than {PACKED_LIMIT} bytes")

    @classmethod
    def of(cls, *constraints: Constraint | str) -> Profile:
        """A profile of these constraints; a string is a selector."""
        return cls(tuple(Selector(one) if isinstance(one, str) else one for one in constraints))

    def matches(self, data: Any) -> bool:
        """Whether the data satisfies every constraint; nothing that it is given makes it raise."""
        # Without constraints, as a rule, nothing is begun: this is asked for every live event.
        return not self.constraints or all(one.matches(data) for one in self.constraints)

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([_flat(constraint) for constraint in self.constraints])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Profile:
        """The profile that `packed` gave; `WireError` for any other bytes."""
        if len(packed) > PACKED_LIMIT:
            raise WireError("malformed_profile")
        try:
            return cls(tuple(_constraint(raw) for raw in msgpack.unpackb(packed, use_list=False)))
        except (UsageError, ValueError, TypeError, KeyError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None


def _flat(constraint: Constraint) -> list[Any]:
    match constraint:
        case Equals(value):
            return [_EQUALS, value]
        case Tag(tag, value):
            return [_TAG, tag, value]
        case Selector(text):
            return [_SELECTOR, text]
        case XPath(path, field, namespaces):
            return [_XPATH, path, field, namespaces]


def _packed(constraint: Constraint) -> bytes:
    packed: bytes = msgpack.packb(_flat(constraint))
    return packed


def _constraint(raw: Any) -> Constraint:
    kind, *fields = raw
    classes: dict[int, Any] = {_EQUALS: Equals, _TAG: Tag, _SELECTOR: Selector, _XPATH: XPath}
    constraint: Constraint = classes[kind](*fields)
    return constraint
