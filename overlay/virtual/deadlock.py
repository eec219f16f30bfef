"""A run that cannot go on is reported with the tasks that wait, and where."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlay.errors import CamcastError

_MOST_TASKS = 20


class Deadlock(CamcastError):
    """The run cannot come to its end: the text names the tasks that wait and where they wait."""


def describe_waiting(tasks: Sequence[asyncio.Task[Any]]) -> str:
    """One clause for each of the first tasks, and how many more there are."""
    if not tasks:
        return "no task is left"
    lines = [_describe(task) for task in tasks[:_MOST_TASKS]]
    if len(tasks) > _MOST_TASKS:
        lines.append(f"and {len(tasks) - _MOST_TASKS} more")
    return f"{len(tasks)} task(s) wait\n  " + "\n  ".join(lines)


def _describe(task: asyncio.Task[Any]) -> str:
    incarnation = getattr(task, "incarnation", None)
    place = "" if incarnation is None else f" on {incarnation.host.address}"
    return f"{task.get_name()}{place}: {' > '.join(_frames(task.get_coro()))}"


def _frames(awaited: Any) -> list[str]:
    """Where a coroutine is suspended, from its own line to the innermost that it awaits."""
    frames: list[str] = []
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            code = frame.f_code
            frames.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return frames or ["not started"]


def _first(holder: object, *names: str) -> Any:
    for name in names:
        if hasattr(holder, name):
            return getattr(holder, name)
    return None
