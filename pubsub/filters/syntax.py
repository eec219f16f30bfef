"""What an expression may cost, and the error for a text that is not one."""

from __future__ import annotations

from overlay.errors import UsageError

TEXT_LIMIT = 4096
"""Characters of an expression."""

NODE_LIMIT = 512
"""Operators, fields and values in one expression."""

DEPTH_LIMIT = 32
"""Parentheses, NOT and signs within each other."""

STEP_LIMIT = 250_000
"""Work in one evaluation, beyond that of the expression's own nodes, each of which is evaluated once:
elements looked at in a list, characters looked at by LIKE (64 count as one where there is no `_`; between
two `%` with an `_`, each counts once more for every 64 characters there). Tens of milliseconds. What would
take more is unknown, so it does not match."""

INTEGER_LIMIT = 2**64 - 1
"""The largest integer, without its sign, that may be written; msgpack carries no larger one."""

_SHOWN = 24


class FilterError(UsageError):
    """The text is not a filter; `position` is the character, from 0, at which it goes wrong."""

    def __init__(self, problem: str, text: str = "", position: int = 0) -> None:
        self.problem = problem
        self.position = position
        rest = text[position : position + _SHOWN]
        near = f", before {rest!r}" if rest else ", at its end" if text else ""
        super().__init__(f"the filter is wrong at character {position + 1}{near}: {problem}")
