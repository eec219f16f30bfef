"""What temporary servers have in common."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

STARTING_SECONDS = 20.0


class NotInstalled(Exception):
    """The server is not on this machine, or does not start; the text says what to install."""


class TemporaryServer:
    """A process with a directory of its own; leaving the `with` block ends the one and removes the other."""

    port = 0
    """Where the server listens on loopback; 0 where it does not."""

    def __init__(self, name: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"camcast-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def processor_seconds(self) -> float:
        """What the process has used so far, where the system tells (Linux); 0 elsewhere."""
        try:
            assert self._process is not None
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, AssertionError):
            return 0.0

    def run(self, *command: str, port: int) -> None:
        """Start the process, and wait until it listens on the loopback port."""
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory
        )
        until = time.monotonic() + STARTING_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.02)
        self.stop()
        raise NotInstalled(f"{os.path.basename(command[0])} did not start")


def installed(program: str, package: str) -> str:
    """The path of a program, or `NotInstalled` with the Debian package that has it."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    path = shutil.which(program, path=places)
    if path is None:
        raise NotInstalled(f"{program} is not installed (Debian's package: {package})")
    return path


def free_port() -> int:
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        port: int = attempt.getsockname()[1]
        return port
