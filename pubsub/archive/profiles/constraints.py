"""The simple constraints of a profile.

The data, or one of its fields, is a given string or integer (`Equals`, `Tag`), or an SQL-like condition in
the language of `pubsub.filters` holds for it (`Selector`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from overlay.errors import UsageError
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
