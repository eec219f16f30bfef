"""The name of a durable subscriber in a managed topic."""

from __future__ import annotations

MOST_NAME_BYTES = 255


def is_entity_name(name: str) -> bool:
    """Whether every store can keep it as text: PostgreSQL takes no NUL, for one."""
    return name.isprintable() and 0 < len(name.encode()) <= MOST_NAME_BYTES
