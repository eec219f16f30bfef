"""What becomes of a command's output where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pubsub.cli", *words]


def test_what_the_encoding_of_the_output_lacks_is_escaped() -> None:
    result = subprocess.run(
        command("demo", "--mode", "unstructured"),
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert r"\u25cf\u25cf\u25cf\u25cf\u25cf\u25cf" in result.stdout


@pytest.mark.parametrize("words", [("demo", "--mode", "unstructured"), ("key", "new")])
def test_a_command_whose_output_nobody_reads_ends_without_a_word(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nowhere:
        result = subprocess.run(
            command(*words),
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdout=nowhere,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("words", [("key", "new"), ("completion", "fish"), ("publish", "/a", "1")])
def test_output_that_cannot_be_written_is_one_sentence(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            command(*words), cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    said = b"camcast: the output cannot be written: no space left on device\n"
    assert (result.returncode, result.stderr) == (1, said)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_was_closed_before_is_nowhere(closed: str) -> None:
    line = f'exec "$@" {closed}'
    result = subprocess.run(
        ["sh", "-c", line, "sh", *command("top", "--count", "1")],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, b"")
