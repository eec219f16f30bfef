"""Opening a store by its address."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from overlay.errors import UsageError
from pubsub.archive.store.store import Store


def open_store(address: str) -> Store:
    """`sqlite:///events.db` (four slashes for an absolute path), `file:///a/directory`,
    `postgresql://user@host/database`, or `memory:` for one that ends with the process.

    `UsageError` for any other address, `StoreError` when the store cannot be opened."""
    scheme = _scheme(address)
    if scheme == "sqlite":
        from pubsub.archive.store.sqlite import SqliteStore

        return SqliteStore(_path(address)[1:])
    if scheme == "file":
        from pubsub.archive.store.append_files import AppendFileStore
        from pubsub.archive.store.filesystem import RealFileSystem

        return AppendFileStore(RealFileSystem(), _path(address))
    if scheme in ("postgresql", "postgres"):
        from pubsub.archive.store.postgresql import PostgresqlStore

        return PostgresqlStore(address)
    if address == "memory:":
        from pubsub.archive.store.sqlite import MemoryStore

        return MemoryStore()
    raise UsageError(
        f"{address!r} is not a store: write sqlite:///events.db, file:///directory"
        " or postgresql://user@host/database"
    )


def _scheme(address: str) -> str:
    try:
        return urlsplit(address).scheme
    except ValueError as error:  # a bracket that is not closed, for one
        raise UsageError(f"{address!r} is not the address of a store: {error}") from None


def _path(address: str) -> str:
    """What comes after the two slashes and an empty host, its own slash included."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.netloc or len(path) < 2:
        raise UsageError(f"{address!r} names no path: write three slashes and then the path")
    return path
