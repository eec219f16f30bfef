"""The simple constraints: an event's data, or one of its fields, is a given string or integer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pubsub.archive.profiles.errors import ProfileError

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
                f"{self.tag!r:.40} is no tag: it must be a string of {VALUE_LIMIT} characters at most"
            )
        check_value(self.value)

    def matches(self, data: Any) -> bool:
        return isinstance(data, dict) and is_same(data.get(self.tag), self.value)


def is_same(one: Any, value: str | int) -> bool:
    """Of the same type too: 1 is neither True nor 1.0."""
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
