"""What a service may be called."""

from __future__ import annotations

from overlay.errors import UsageError

MAX_NAME_BYTES = 200


class ServiceNameError(UsageError):
    """The text is no service's name."""


def check_service(name: str) -> str:
    """Return `name` when it can be a service's: 1 to 200 bytes of printable UTF-8."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ServiceNameError(f"{name!r} is no service: a name is printable text")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ServiceNameError(f"{name!r} is no service: more than {MAX_NAME_BYTES} bytes")
    return name
