"""The directory where files arrive: whole ones under their names, others in `.partial` until they are whole.

Of every file the manifest and the checksums of the pieces are kept in `.partial`, and of a whole one its
name. Which pieces of a partial file are there is found out by reading them: so nothing is believed that a
crash may have left half written.
"""

from __future__ import annotations

import os
from dataclasses import astuple
from pathlib import Path

import msgpack

from overlay.errors import UsageError
from pubsub.files.errors import FileError, disk_errors
from pubsub.files.manifest import Manifest, is_file_name
from pubsub.files.piece_file import PieceFile
from pubsub.files.protocol.hash_list import HashList

_PARTIAL = ".partial"
_BLOCK_BYTES = 512
"""In which `st_blocks` counts, whatever the disk's own blocks are."""
_Kept = tuple[Manifest, HashList, str]
"""What is kept of a file; the name is empty until it is whole."""


class Arrivals:
    """A directory that one receiver uses at a time; `FileError` when it cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._partial = directory / _PARTIAL
        with disk_errors(directory, "used"):
            self._partial.mkdir(parents=True, exist_ok=True)

    def unfinished(self) -> list[Manifest]:
        """The files that had begun to arrive; one that was about to be given its name is among them."""
        kept = filter(None, map(_read, sorted(self._partial.glob("*.manifest"))))
        return [
            manifest
            for manifest, _, name in kept
            if not name or self._path(manifest, "part").is_file()
        ]

    def finished(self, manifest: Manifest) -> tuple[PieceFile, HashList] | None:
        """A file that has arrived before, if it is still there with its size."""
        kept = _read(self._path(manifest, "manifest"))
        if kept is None or not kept[2] or self._path(manifest, "part").is_file():
            return None
        path = self._directory / kept[2]
        if not path.is_file() or path.stat().st_size != manifest.size:
            return None
        return PieceFile(path, manifest), kept[1]

    def open(self, manifest: Manifest) -> tuple[PieceFile, HashList]:
        """The place for a file that arrives, and the checksums of pieces that are known."""
        kept = _read(self._path(manifest, "manifest"))
        hashes = kept[1] if kept is not None else HashList(manifest)
        self.keep(manifest, hashes)
        return PieceFile(self._path(manifest, "part"), manifest, write=True), hashes

    def keep(self, manifest: Manifest, hashes: HashList, name: str = "") -> None:
        """Remember what can be known of a file before its content; synced when this returns."""
        path = self._path(manifest, "manifest")
        draft = path.with_suffix(".draft")
        with disk_errors(path, "written"):
            with open(draft, "wb") as file:
                file.write(msgpack.packb([*astuple(manifest), hashes.packed(), name]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            _sync_directory(self._partial)

    def finish(self, manifest: Manifest, hashes: HashList) -> Path:
        """Give a whole and synced file its name; another name when a different file has it.

        The name is kept first: after a crash in between, the file goes on as one that is all there."""
        path = self._free_name(manifest)
        self.keep(manifest, hashes, path.name)
        with disk_errors(path, "written"):
            os.replace(self._path(manifest, "part"), path)
            _sync_directory(self._directory)
        return path

    def _free_name(self, manifest: Manifest) -> Path:
        path = wanted = self._directory / manifest.name
        number = 0
        while path.exists():
            number += 1
            more = f"-{number}" if number > 1 else ""
            path = wanted.with_stem(f"{wanted.stem}-{manifest.id.hex()[:8]}{more}")
        return path

    def remove(self, manifest: Manifest) -> None:
        """Forget a file that has not got its name, with what is there of it."""
        for kind in ("part", "manifest"):
            with disk_errors(self._path(manifest, kind), "removed"):
                self._path(manifest, kind).unlink(missing_ok=True)

    def check_room(self, manifest: Manifest) -> None:
        """`FileError` when the disk has no room for what is missing of a file."""
        part, missing = self._path(manifest, "part"), manifest.size
        with disk_errors(self._directory, "used"):
            if part.is_file():
                missing -= min(part.stat().st_blocks * _BLOCK_BYTES, manifest.size)
            free = self.free_bytes()
        if missing > free:
            raise FileError(
                f"there is no room for {manifest.name}: {missing:,} bytes are missing, and "
                f"{self._directory} has {free:,}"
            )

    def free_bytes(self) -> int:
        with disk_errors(self._directory, "used"):
            space = os.statvfs(self._directory)
            return space.f_bavail * space.f_frsize

    def _path(self, manifest: Manifest, kind: str) -> Path:
        return self._partial / f"{manifest.id.hex()}.{kind}"


def _read(path: Path) -> _Kept | None:
    """What was kept; None when there is nothing that can be read."""
    try:
        *fields, hashes, name = msgpack.unpackb(path.read_bytes())
        manifest = Manifest(*fields)
        if name and not is_file_name(name):
            return None
        return manifest, HashList(manifest, hashes), name
    except (OSError, ValueError, TypeError, UsageError, msgpack.UnpackException):
        return None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
