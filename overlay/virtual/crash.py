"""What a crash leaves of the programs of a host: nothing that runs, and coroutines that stay as they are.

A coroutine that is let go runs its `finally` clauses, and a host that lost its power does not. So the
coroutines of the dead are kept, until the next network of this process begins its run or the process
ends; only then are they let go, where no loop runs and nobody looks.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import warnings
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from overlay.virtual.hosts import HostCrashed, Incarnation
from overlay.virtual.loop import VirtualTask

if TYPE_CHECKING:
    from overlay.virtual.loop import VirtualLoop

_graves: list[Any] = []
_MOST_AWAITS_WHILE_CLOSING = 100


def kill(loop: VirtualLoop, incarnation: Incarnation) -> None:
    """End an incarnation: none of its callbacks runs again, and who awaits its tasks gets `HostCrashed`."""
    incarnation.alive = False
    loop.mortal = True
    for task in loop.tasks():
        if task.incarnation is incarnation:
            abandon(loop, task, f"ran on {incarnation.host.address}, which crashed")


def abandon(loop: VirtualLoop, task: VirtualTask, reason: str) -> None:
    """Make a task fail without letting its coroutine know."""
    _graves.append(task.get_coro())
    _end(loop, task, HostCrashed(f"the task {task.get_name()} {reason}"))


def _end(loop: VirtualLoop, task: VirtualTask, crashed: HostCrashed) -> None:
    if asyncio.current_task(loop) is task:
        # It brought the crash about, and cannot end before it awaits.
        loop.call_soon(_end, loop, task, crashed, context=Context())
    elif not task.done():
        asyncio.Future.set_exception(task, crashed)
        task.exception()  # so that nobody is told that it was never retrieved


def bury() -> None:
    """Let the coroutines of all dead hosts go, and with them their memory; what they say is not heard."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while _graves:
                _close(_graves.pop())
    finally:
        logging.disable(before)


atexit.register(bury)


def _close(coroutine: Any) -> None:
    for _ in range(_MOST_AWAITS_WHILE_CLOSING):
        with suppress(BaseException):
            coroutine.close()
        if coroutine.cr_frame is None:
            break
