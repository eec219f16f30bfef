"""The root of every exception that this project raises on purpose.

Two questions are answered by the type: whose fault it was, and what to do. Wrong arguments raise
`UsageError`; a network that does not answer raises `NetworkError`. What a *peer* sends never raises:
it is counted under a reason and dropped (see `overlay.metrics`).
"""

import errno
import inspect
import os
from dataclasses import fields
from typing import Any


class CamcastError(Exception):
    """Anything this project raises on purpose; the text is one sentence that says what to do."""


class UsageError(CamcastError, ValueError):
    """The caller passed something that cannot work; nothing was changed."""


def check_positive(config: Any, *, besides: tuple[str, ...] = ()) -> None:
    """`UsageError` for the first field for a number in a dataclass that has something else; or, but for those
    named, a number that is not more than 0, or at least 1 where it is an `int`. Its module must have
    `from __future__ import annotations`."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.type not in ("int", "float"):
            continue
        is_int = field.type == "int"
        if isinstance(value, bool) or not isinstance(value, int if is_int else int | float):
            named = "a whole number" if is_int else "a number"
            raise UsageError(f"{field.name} must be {named}, not {value!r}")
        if field.name in besides:
            continue
        if is_int and not value >= 1:
            raise UsageError(f"{field.name}={value} must be at least 1")
        if not value > 0:
            raise UsageError(f"{field.name}={value} must be more than 0")


def why(error: BaseException) -> str:
    """What the system, or another package, says is wrong: on one line, without numbers and addresses, which
    each event loop adds in its way."""
    number: int = getattr(error, "errno", 0) or getattr(error.__cause__, "errno", 0) or 0
    if number in errno.errorcode:
        return os.strerror(number).lower()
    return " ".join(str(error).split())


def check_function(name: str, function: Any, error: type[UsageError] = UsageError) -> None:
    """Raise `error` unless it can be called here and now. A coroutine function cannot: nobody would await its
    answer, and a coroutine counts as true."""
    if not callable(function):
        raise error(f"{name} must be a function, not {function!r}")
    if any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):
        raise error(f"{name} must be a plain function, not a coroutine function: {function!r}")


class NetworkError(CamcastError):
    """The network, or the peers on it, did not do what the call needs."""


class ClosedError(CamcastError):
    """The object was closed before or during the call."""
