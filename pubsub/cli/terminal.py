"""A command and its terminal: what it writes, the lines it reads, and how it ends when it is told to stop.

It writes plain text for people and JSON lines for programs. Events come from strangers: whatever data msgpack
carries can be written, and is one line. What it logs is one line for each thing that an operator should know.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from overlay import loops
from overlay.errors import UsageError, why
from pubsub.event import Event
from pubsub.text import json_line, plain_line, visible

_CHUNK = 64 * 1024
LONG_SECONDS = 3.0
"""How long a command waits without a word."""

INTERRUPTED = 130
"""The exit code of a command that was stopped from the keyboard."""


def say(arguments: argparse.Namespace, text: str, **fields: Any) -> None:
    """Write one line at once: the text, or with --json the fields."""
    print(json_line(fields) if arguments.json else text, flush=True)


@contextmanager
def told_if_long(text: str) -> Iterator[None]:
    """Whoever waits for a moment is told on the standard error for what."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(LONG_SECONDS, lambda: print(text, file=sys.stderr, flush=True))
    try:
        yield
    finally:
        timer.cancel()


def plain(event: Event) -> str:
    return plain_line(event.topic, _shown(event))


def as_json(event: Event, **more: Any) -> str:
    """The event, and what else there is to say of it."""
    return json_line(
        {
            "topic": event.topic,
            "data": _shown(event),
            "publisher": event.publisher,
            "sequence": event.sequence,
            "hops": event.hops,
            "id": event.id,
            **more,
        }
    )


def _shown(event: Event) -> Any:
    """The event's data; the payload where an MQTT client has published it."""
    if type(event.data) is not bytes:
        return event.data
    from pubsub.doors.mqtt.message import shown_data

    return shown_data(event.topic, event.data)


async def input_lines() -> AsyncIterator[str]:
    """The lines of the standard input, without their ends; more is read when they have been taken.

    Ctrl-C ends a command that waits for a line.

    `UsageError` when there is no standard input, or when it is not text.
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
        raise UsageError(f"the standard input cannot be read: {why(found)}")
    return found


def _text(line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise UsageError(f"a line of the standard input is not UTF-8: {line[:40]!r}") from None


def run(main: Coroutine[Any, Any, int]) -> int:
    """The coroutine's exit code; Ctrl-C and SIGTERM cancel it, so that its node leaves the network."""
    try:
        return loops.run(_stoppable(main))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


async def _stoppable(main: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await main
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


LOG_FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_OTHERS = ("kademlia", "rpcudp", "asyncio", "aiohttp", "zeroconf")
"""Loggers of other packages, which speak of their own affairs: only their errors are passed on."""


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{record.levelname.lower()}: {visible(record.getMessage())}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json_line(fields)


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def set_up_logs(arguments: argparse.Namespace) -> None:
    """Write what is logged to the standard error, in the format and from the level that are asked for."""
    handler = _ToStandardError()
    handler.setFormatter(_Json() if arguments.log_format == "json" else _Text())
    root = logging.getLogger()
    for before in [one for one in root.handlers if isinstance(one, _ToStandardError)]:
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(arguments.log_level.upper())
    for name in _OTHERS:
        logging.getLogger(name).setLevel(logging.ERROR)
