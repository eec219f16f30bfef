"""The command line as a process of its own, ended with the `with` block."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def camcast(
    *arguments: str, reads: bool = False, largest_file: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """`reads`: what is written to its `stdin` is what it reads. `largest_file`: bytes that it can write to a
    file, as if the disk were full then."""

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    process = subprocess.Popen(
        [sys.executable, "-m", "pubsub.cli", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE if reads else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
