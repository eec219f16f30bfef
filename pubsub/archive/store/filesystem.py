"""The few things that the append-file store asks of a file system, and the real one.

`overlay.virtual.disk.VirtualDisk` is another: so the crash tests run the store's own code.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

_LOCK = "lock"


class File(Protocol):
    """An open file that grows at its end."""

    def append(self, data: bytes) -> None: ...

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on, at most `size` of them."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when everything appended so far is on stable storage."""
        ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """Paths are strings with slashes. Whatever fails raises `OSError`."""

    def make_directory(self, path: str) -> None: ...

    def lock(self, directory: str) -> None:
        """Keep other processes out until `unlock` or the end of this process; `OSError` when one is in."""
        ...

    def unlock(self, directory: str) -> None: ...

    def names(self, directory: str) -> list[str]:
        """The names of a directory's files, sorted."""
        ...

    def open(self, path: str) -> File:
        """The file of this name, made when there is none."""
        ...

    def remove(self, path: str) -> None: ...

    def sync_directory(self, directory: str) -> None:
        """Return when the names that were made and removed in it are on stable storage."""
        ...


class RealFile:
    """A file of the operating system, without a buffer of our own."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        sync_descriptor(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class RealFileSystem:
    """The operating system's; names other than those of files in the directory itself are not looked at."""

    def __init__(self) -> None:
        self._locks: dict[str, int] = {}

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def lock(self, directory: str) -> None:
        self._locks[directory] = lock_file(os.path.join(directory, _LOCK))

    def unlock(self, directory: str) -> None:
        os.close(self._locks.pop(directory))

    def names(self, directory: str) -> list[str]:
        return sorted(name for name in os.listdir(directory) if name != _LOCK)

    def open(self, path: str) -> RealFile:
        return RealFile(path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def sync_directory(self, directory: str) -> None:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_descriptor(descriptor: int) -> None:
    """Sync a file, past the drive's own cache too where the system tells that from a sync."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def lock_file(path: str) -> int:
    """Lock a file for this process; closing the descriptor, or the end of the process, unlocks it."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise OSError(f"{path} is locked by another process") from None
    return descriptor
