"""What a command logs: one line for each thing that an operator should know, as text or as JSON."""

from __future__ import annotations

import argparse
import logging
import sys
from datetime import UTC, datetime

from pubsub.text import json_line, visible

FORMATS = ("text", "json")
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
