"""The command line as a process of its own, ended with the `with` block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def camcast(*arguments: str, reads: bool = False) -> Iterator[subprocess.Popen[str]]:
    """`reads`: what is written to its `stdin` is what it reads."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pubsub.cli", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE if reads else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
