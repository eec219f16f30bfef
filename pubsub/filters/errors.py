"""What is raised for a text that is no filter."""

from __future__ import annotations

from overlay.errors import UsageError

_SHOWN = 24


class FilterError(UsageError):
    """The text is no filter; `position` is the character, from 0, at which it goes wrong."""

    def __init__(self, problem: str, text: str = "", position: int = 0) -> None:
        self.problem = problem
        self.position = position
        rest = text[position : position + _SHOWN]
        near = f", before {rest!r}" if rest else ", at its end" if text else ""
        super().__init__(f"the filter is wrong at character {position + 1}{near}: {problem}")
