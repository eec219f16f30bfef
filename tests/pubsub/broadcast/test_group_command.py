"""`camcast group` as a user runs it: one process a terminal, real UDP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pubsub.cli import main
from tests.pubsub.command_process import camcast, line

ROOT = Path(__file__).parents[3]


def free_addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in range(count)
        ]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def start(file: Path, rank: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pubsub.cli", "group", "-f", str(file), "-n", str(rank), *more],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_typed_line_reaches_every_process(tmp_path: Path) -> None:
    file = tmp_path / "processes.toml"
    file.write_text(f"members = {free_addresses(2)!r}".replace("'", '"'))
    processes = [start(file, rank, "--qos", "iurb", "--order", "fifo") for rank in range(2)]
    try:
        for rank, process in enumerate(processes):
            assert process.stdout is not None
            assert process.stdout.readline() == f"process {rank} of 2, iurb\n"
        assert processes[0].stdin is not None
        processes[0].stdin.write("hello there\nbcast second\n")
        processes[0].stdin.flush()
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "0: hello there\n"
            assert process.stdout.readline() == "0: second\n"
        for process in processes:
            _, errors = process.communicate(timeout=30)
            assert (errors, process.returncode) == ("", 0)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_the_file_says_what_the_command_line_leaves_out_and_programs_get_json(
    tmp_path: Path,
) -> None:
    file = tmp_path / "group.toml"
    (address,) = free_addresses(1)
    file.write_text(f'members = ["{address}"]\nrank = 0\nqos = "iurb"\njson = true')
    with camcast("group", "--config", str(file), "--qos", "beb", reads=True) as process:
        assert json.loads(line(process)) == {"rank": 0, "qos": "beb"}
        assert process.stdin is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert json.loads(line(process)) == {"source": 0, "data": "hello", "number": 0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("members = [", "is not valid TOML"),
        ("members = 3", "members must be a list of texts, not 3"),
        ('listen = "127.0.0.1:0"', "no setting 'listen'"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_names_no_members_is_refused(
    text: str | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "processes.toml"
    if text is not None:
        file.write_text(text)
    assert main(["group", "-f", str(file), "-n", "0"]) == 1
    assert complaint in capsys.readouterr().err
