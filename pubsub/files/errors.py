"""What goes wrong with files."""

from __future__ import annotations

from overlay.errors import CamcastError


class FileError(CamcastError):
    """A file could not be read or written, or is not what was sent."""
