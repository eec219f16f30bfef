"""What a message of a service carries: an application's data, or an event of the topic behind the service;
and what a service may be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from overlay.contact import ID_BYTES, PeerId
from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.event import ID_BYTES as EVENT_ID_BYTES
from pubsub.event import Event, pack_data, unpack_data

MAX_NAME_BYTES = 200


class ServiceNameError(UsageError):
    """The text is not a valid name of a service."""


def check_service(name: str) -> str:
    """Return `name` when it can be a service's: 1 to 200 bytes of printable UTF-8."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ServiceNameError(f"{name!r} is not a valid service: a name is printable text")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ServiceNameError(f"{name!r} is not a valid service: more than {MAX_NAME_BYTES} bytes")
    return name


_DATA = b"\x00"
_EVENT = b"\x01"


@dataclass(frozen=True, slots=True)
class Carried:
    """An event of a topic, or an application's own data (then all but `data` is None)."""

    data: Any
    topic: str | None = None
    publisher: PeerId | None = None
    event_id: bytes | None = None


def pack_application_data(data: Any) -> bytes:
    """`DataError` when the data cannot travel, or is too large."""
    return _DATA + pack_data(data)


def pack_event(event: Event) -> bytes:
    head: bytes = msgpack.packb([event.topic, bytes(event.publisher), event.id])
    return _EVENT + len(head).to_bytes(2, "big") + head + pack_data(event.data)


def unpack_content(content: bytes) -> Carried:
    """What a publisher or a distributor packed; `WireError` for any other bytes."""
    if content[:1] == _DATA:
        return Carried(unpack_data(content[1:]))
    if content[:1] != _EVENT:
        raise WireError("malformed_data")
    size = int.from_bytes(content[1:3], "big")
    head = unpack_data(content[3 : 3 + size])
    if not (
        isinstance(head, list)
        and [type(one) for one in head] == [str, bytes, bytes]
        and len(head[1]) == ID_BYTES
        and len(head[2]) == EVENT_ID_BYTES
    ):
        raise WireError("malformed_data")
    return Carried(unpack_data(content[3 + size :]), head[0], PeerId(head[1]), head[2])


def event_id_of(content: bytes) -> bytes | None:
    """The id of the event that a message carries, without reading the rest; None for other data."""
    if content[:1] != _EVENT:
        return None
    size = int.from_bytes(content[1:3], "big")
    return content[3 + size - EVENT_ID_BYTES : 3 + size]
