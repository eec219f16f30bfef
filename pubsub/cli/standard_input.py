"""The lines of the standard input, read so that Ctrl-C ends a command that waits for one."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

from overlay.errors import UsageError

_CHUNK = 64 * 1024


async def lines() -> AsyncIterator[str]:
    """Each line without its end; more is read when they have been taken.

    `UsageError` when there is no standard input, or what is in it is no text.
    """
    rest = b""
    while chunk := await _read():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _text(line)
    if rest:
        yield _text(rest)


async def _read() -> bytes:
    """The next bytes, none at the end.

    They are read in a daemon thread, straight from the descriptor: the process can end meanwhile, whereas a
    thread of a pool would be waited for, and one inside `sys.stdin` would hold its lock.
    """
    descriptor = -1 if sys.__stdin__ is None else sys.__stdin__.fileno()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[bytes | OSError] = loop.create_future()

    def settle(found: bytes | OSError) -> None:
        if not outcome.done():
            outcome.set_result(found)

    def read() -> None:
        found: bytes | OSError
        try:
            found = os.read(descriptor, _CHUNK)
        except OSError as error:
            found = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=read, daemon=True).start()
    found = await outcome
    if isinstance(found, OSError):
        raise UsageError(f"the standard input cannot be read: {found.strerror}")
    return found


def _text(line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise UsageError(f"a line of the standard input is not UTF-8: {line[:40]!r}") from None
