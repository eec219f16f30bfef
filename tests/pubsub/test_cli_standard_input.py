"""Commands that read lines: what is a line, and that waiting for one does not hold up the end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overlay.errors import UsageError
from pubsub.cli.terminal import input_lines
from tests.pubsub.broadcast.test_group_command import free_addresses
from tests.pubsub.command_process import ROOT, camcast


def exchange(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.flush()
    return process.stdout.readline()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How it ends at Ctrl-C while its input stays open."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    return process.wait(20), process.stderr.read()


def test_the_keyboard_stops_a_publisher_that_waits_for_a_line() -> None:
    with camcast("publish", "/soccer", "-", reads=True) as publisher:
        assert exchange(publisher, "1-0\n").startswith("/soccer  event ")
        code, errors = interrupted(publisher)
        assert (code, errors) == (130, "nobody else is in /soccer or a super-topic\n")


def test_the_keyboard_stops_a_member_of_a_group_that_waits_for_a_line(tmp_path: Path) -> None:
    file = tmp_path / "processes.toml"
    file.write_text(f'members = ["{free_addresses(1)[0]}"]')
    with camcast("group", "-f", str(file), "-n", "0", reads=True) as member:
        assert exchange(member, "hello\n") == "process 0 of 1, beb\n"
        assert exchange(member, "") == "0: hello\n"
        assert interrupted(member) == (130, "")


def test_what_is_no_text_is_said_in_one_sentence() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pubsub.cli", "publish", "/soccer", "-"],
        cwd=ROOT,
        input=b"\xff\n",
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == 1
    assert result.stderr.decode().splitlines() == [
        "camcast: a line of the standard input is not UTF-8: b'\\xff'"
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\n\nb", ["a", "", "b"]),
        ("Zürich\n".encode() * 20_000, ["Zürich"] * 20_000),
    ],
)
def test_lines_come_without_their_ends(
    written: bytes, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_lines() -> list[str]:
        return [line async for line in input_lines()]

    file = tmp_path / "input"
    file.write_bytes(written)
    with file.open() as opened:
        monkeypatch.setattr(sys, "__stdin__", opened)
        assert asyncio.run(all_lines()) == read


def test_a_command_without_standard_input_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdin__", None)
    with pytest.raises(UsageError, match="cannot be read: bad file descriptor"):
        asyncio.run(anext(input_lines()))  # type: ignore[arg-type]
