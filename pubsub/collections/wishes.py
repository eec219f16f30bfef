"""What one node wants of a strong topic: the text that travels to the others, so that they send it no more.

Whoever publishes sends an element only to those whose wishes it meets. What one cannot read counts as
wanting everything: the receiver filters again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pubsub.filters import Filter, FilterError

MOST_TEXT = 4096
"""Characters that may travel."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Wishes:
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
        flags = [self.own, self.below, self.ordered, self.takes]
        filters = [
            None if wanted is None else wanted.text for wanted in (self.filter, self.take_filter)
        ]
        text = json.dumps([_FORMAT, flags, *filters], separators=(",", ":"))
        if len(text) > MOST_TEXT:
            text = json.dumps([_FORMAT, flags, None, None], separators=(",", ":"))
        return text


@lru_cache(maxsize=4096)
def parse_wishes(text: str) -> Wishes:
    """The wishes that a participant's text tells; everything, when it tells none."""
    try:
        version, flags, wanted, taken = json.loads(text)
        own, below, ordered, takes = flags
        if version != _FORMAT or not all(type(flag) is bool for flag in flags):
            return Wishes(below=True)
        return Wishes(own, below, _filter(wanted), ordered, takes, _filter(taken))
    except (ValueError, TypeError, RecursionError):
        return Wishes(below=True)


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
