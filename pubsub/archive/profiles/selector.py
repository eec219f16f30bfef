"""An SQL-like condition on the event's fields, in the language of `pubsub.filters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pubsub.archive.profiles.errors import ProfileError
from pubsub.filters import Filter


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
