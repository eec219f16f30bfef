"""Keeps what one process at a time may use from others."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import ClassVar

from overlay.errors import UsageError, why


class ProcessLock:
    """Keeps other processes away from a file until the last of this process's users is done with it.

    The system gives up a process's lock when any descriptor of the locked file is closed, so there is one
    descriptor for each file. Within a process, the owner tells users apart. Any thread may call."""

    _turn: ClassVar[threading.Lock] = threading.Lock()
    _descriptors: ClassVar[dict[str, int]] = {}
    _users: ClassVar[dict[str, int]] = {}

    def __init__(self, path: str | Path, kind: str) -> None:
        """`kind`: what the file is called where another process has it, which is a `UsageError`. It need not
        exist: what is locked is a file beside it. ":memory:" is nobody else's."""
        self._name = "" if str(path) == ":memory:" else os.path.realpath(f"{path}.lock")
        with self._turn:
            if self._name and self._name not in self._descriptors:
                self._descriptors[self._name] = _locked(self._name, path, kind)
            self._users[self._name] = self._users.get(self._name, 0) + 1

    def release(self) -> None:
        with self._turn:
            self._users[self._name] -= 1
            if not self._users[self._name]:
                del self._users[self._name]
                if self._name:
                    os.close(self._descriptors.pop(self._name))


def _locked(name: str, path: str | Path, kind: str) -> int:
    import fcntl

    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be used as a {kind}: {why(error)}") from None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError(f"{path} is in use: another process has this {kind} open") from None
    return descriptor
