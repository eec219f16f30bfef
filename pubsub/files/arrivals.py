"""The directory where files arrive: whole ones under their names, others in `.partial` until they are whole.

Of a partial file the manifest and the checksums of the pieces are kept beside it. Which pieces are there is
found out by reading them: so nothing is believed that a crash may have left half written.
"""

from __future__ import annotations

import os
from dataclasses import astuple
from pathlib import Path

import msgpack

from overlay.errors import UsageError
from pubsub.files.errors import FileError
from pubsub.files.manifest import Manifest
from pubsub.files.piece_file import PieceFile
from pubsub.files.protocol.hash_list import HashList

_PARTIAL = ".partial"


class Arrivals:
    """A directory that one receiver uses at a time; `FileError` when it cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._partial = directory / _PARTIAL
        try:
            self._partial.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{directory} cannot be used: {error.strerror}") from None

    def unfinished(self) -> list[Manifest]:
        """The files that had begun to arrive."""
        kept = (self._kept(path) for path in sorted(self._partial.glob("*.manifest")))
        return [manifest for manifest, _ in filter(None, kept)]

    def open(self, manifest: Manifest) -> tuple[PieceFile, HashList]:
        """The place for a file that arrives, and the checksums of pieces that are known."""
        kept = self._kept(self._path(manifest, "manifest"))
        hashes = kept[1] if kept is not None else HashList(manifest)
        self.keep(manifest, hashes)
        return PieceFile(self._path(manifest, "part"), manifest, write=True), hashes

    def keep(self, manifest: Manifest, hashes: HashList) -> None:
        """Remember what can be known of a file before its content."""
        known = hashes.packed() if hashes.is_complete else b""
        path = self._path(manifest, "manifest")
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgpack.packb([*astuple(manifest), known]))
        os.replace(draft, path)

    def finish(self, manifest: Manifest) -> Path:
        """Give a whole and synced file its name; another name when a different file has it."""
        path = self._directory / manifest.name
        if path.exists():
            path = path.with_stem(f"{path.stem}-{manifest.id.hex()[:8]}")
        os.replace(self._path(manifest, "part"), path)
        self._path(manifest, "manifest").unlink(missing_ok=True)
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return path

    def free_bytes(self) -> int:
        space = os.statvfs(self._directory)
        return space.f_bavail * space.f_frsize

    def _path(self, manifest: Manifest, kind: str) -> Path:
        return self._partial / f"{manifest.id.hex()}.{kind}"

    def _kept(self, path: Path) -> tuple[Manifest, HashList] | None:
        try:
            *fields, hashes = msgpack.unpackb(path.read_bytes())
            manifest = Manifest(*fields)
            return manifest, HashList(manifest, hashes)
        except (OSError, ValueError, TypeError, UsageError, msgpack.UnpackException):
            return None
