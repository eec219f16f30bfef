"""How much of a file is safe at an archive, kept beside the file for a sender that is interrupted.

It is a convenience and no promise: where it cannot be written, or is lost, pieces are sent once more, and
receivers take each once.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from pubsub.files.manifest import Manifest

WRITE_EVERY = 64
"""Pieces from one writing to the next."""


class SendingRecord:
    """Of one file on its way to the archives of one topic, in `NAME.sending` in the file's directory."""

    def __init__(self, path: Path, manifest: Manifest, topic: str) -> None:
        self._path = path.with_name(f"{path.name}.sending")
        self._sending = {"file": manifest.id.hex(), "topic": topic}
        self.safe = self._read(manifest)
        """The pieces before this one are safe."""
        self._written = self.safe

    def advance(self, safe: int) -> None:
        """So many pieces from the first on are safe now."""
        self.safe = safe
        if safe >= self._written + WRITE_EVERY:
            self.write()

    def write(self) -> None:
        self._written = self.safe
        draft = self._path.with_name(f"{self._path.name}.draft")
        with suppress(OSError):
            draft.write_text(json.dumps({**self._sending, "safe": self.safe}))
            os.replace(draft, self._path)

    def remove(self) -> None:
        """All of it is safe."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _read(self, manifest: Manifest) -> int:
        """What an earlier sender of the same content to the same topic wrote; 0 if that is of no use."""
        try:
            kept = json.loads(self._path.read_text())
            safe = kept.pop("safe")
        except (OSError, ValueError, AttributeError, KeyError):
            return 0
        is_ours = kept == self._sending and type(safe) is int and 0 <= safe <= manifest.pieces
        return safe if is_ours else 0
