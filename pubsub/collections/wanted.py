"""What one node wants of a strong topic: the text that travels to the others, so that they send it no more.

A publisher sends an element only to the nodes whose wants it meets. A text that a node cannot read counts as
wanting everything: the receiver filters again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pubsub.filters import Filter, FilterError

MOST_TEXT = 4096
"""Characters that may travel."""

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    own: bool = True
    """Elements of the topic itself, as far as `filter` matches."""
    below: bool = False
    """Elements of its subtopics, likewise."""
    filter: Filter | None = None
    """None matches everything."""
    ordered: bool = False
    """It delivers in total order, so it needs everything, and all the others' announcements."""
    takes: bool = False
    """It asks for one-of-n delivery of the topic's own elements..."""
    take_filter: Filter | None = None
    """...that this matches; None matches everything."""
    shared: bool = False
    """It has asked for one-of-n delivery since it started, so it may have spare copies."""
    incarnation: int = 0
    """Tells a participant that started again from the one that it was before."""

    def wants(self, is_own: bool, data: Any) -> bool:
        """Whether an element of the topic itself, or of a subtopic, is to be sent to it."""
        if self.ordered:
            return True
        if not (self.own if is_own else self.below):
            return False
        return self.filter is None or self.filter.matches(data)

    @property
    def text(self) -> str:
        """What travels; filters that are too long stay at home."""
        flags = [self.own, self.below, self.ordered, self.takes, self.shared]
        filters = [
            None if wanted is None else wanted.text for wanted in (self.filter, self.take_filter)
        ]
        text = self._written(flags, *filters)
        return text if len(text) <= MOST_TEXT else self._written(flags, None, None)

    def _written(self, flags: list[bool], *filters: str | None) -> str:
        return json.dumps([_FORMAT, flags, self.incarnation, *filters], separators=(",", ":"))


@lru_cache(maxsize=4096)
def parse_wanted(text: str) -> Wanted:
    """The wants that a participant's text tells; everything, when it tells none."""
    try:
        version, flags, incarnation, wanted, taken = json.loads(text)
        own, below, ordered, takes, shared = flags
        if version != _FORMAT or not all(type(flag) is bool for flag in flags):
            return Wanted(below=True)
        if type(incarnation) is not int:
            return Wanted(below=True)
        filters = _filter(wanted), _filter(taken)
        return Wanted(own, below, filters[0], ordered, takes, filters[1], shared, incarnation)
    except (ValueError, TypeError, RecursionError):
        return Wanted(below=True)


@lru_cache(maxsize=1024)
def _filter(text: Any) -> Filter | None:
    return None if text is None else Filter.parse(text)


def either(filters: list[Filter | None]) -> Filter | None:
    """What matches whatever one of them matches; everything when one does, or when it grows too long."""
    texts: dict[str, None] = {}
    for wanted in filters:
        if wanted is None:
            return None
        texts[wanted.text] = None
    try:
        return Filter.parse(" OR ".join(f"({text})" for text in texts)) if texts else None
    except FilterError:
        return None
