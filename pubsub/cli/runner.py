"""Run a command's coroutine to its end, and end well when the user or the system says stop."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from overlay import loops

INTERRUPTED = 130
"""The exit code of a command that was stopped from the keyboard."""


def run(main: Coroutine[Any, Any, int]) -> int:
    """The coroutine's exit code; Ctrl-C and SIGTERM cancel it, so that its node leaves the network."""
    try:
        return call(lambda: loops.run(_stoppable(main)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def call(main: Callable[[], int]) -> int:
    """The function's exit code; it may print whatever it likes.

    What the output's encoding lacks is escaped. Who reads the output may stop reading: that ends the command,
    and is no error.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is still in the buffer would be written when the interpreter ends, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _stoppable(main: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await main
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
