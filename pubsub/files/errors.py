"""What goes wrong with files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlay.errors import CamcastError


class FileError(CamcastError):
    """A file could not be read or written, or is not what was sent."""


@contextmanager
def disk_errors(path: Path, what: str) -> Iterator[None]:
    """Turn what the disk fails with into a `FileError`: this path cannot be opened, read, written."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be {what}: {error.strerror or error}") from None
