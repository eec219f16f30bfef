"""How commands write events: plain text for people, JSON lines for programs."""

from __future__ import annotations

import json
from typing import Any

from pubsub.event import Event


def plain(event: Event) -> str:
    return f"{event.topic}  {_text(event.data)}"


def as_json(event: Event) -> str:
    """One line; bytes are written in hexadecimal."""
    fields = {
        "topic": event.topic,
        "data": event.data,
        "publisher": event.publisher.hex(),
        "sequence": event.sequence,
        "hops": event.hops,
        "id": event.id.hex(),
    }
    return json.dumps(fields, ensure_ascii=False, default=_hexadecimal)


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data
    return json.dumps(data, ensure_ascii=False, default=_hexadecimal)


def _hexadecimal(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
