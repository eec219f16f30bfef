"""The commands that a reader is shown: all are understood, and those of the tutorial do what it says."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pubsub import _HOMES
from pubsub.cli import parser_for

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```|((?:^    \S.*\n)+)", re.MULTILINE | re.DOTALL)
SHELL_WORDS = re.compile(r"[|<>&;]")


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each `camcast` command of a page, without what the shell makes of it."""
    for block in SHELL.finditer(text):
        for line in (block[1] or block[2]).replace("\\\n", " ").splitlines():
            if line.strip().startswith("camcast "):
                words = shlex.split(line, comments=True)
                ends = (i for i, word in enumerate(words) if SHELL_WORDS.fullmatch(word))
                yield words[1 : next(ends, len(words))]


def shown() -> Iterator[Any]:
    for page in PAGES:
        for number, words in enumerate(commands_in(page.read_text()), 1):
            yield pytest.param(words, id=f"{page.stem}:{number}")


@pytest.mark.parametrize("words", list(shown()))
def test_a_command_that_is_shown_is_understood(words: list[str]) -> None:
    parser_for(words).parse_args(words)


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert {f"{home}.{name}" for name, home in _HOMES.items()} <= set(listed)


def test_files_that_the_page_of_papers_names_are_there() -> None:
    named = re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / "docs" / "papers.md").read_text())
    assert len(named) > 40
    assert not [name for name in named if not (ROOT / name).exists()]


GOES_ON = {"node", "archive", "dashboard"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Terminal:
    """A reader who types the page's commands in a directory of their own."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pubsub.cli", *words]
        options: dict[str, Any] = {"env": {"PYTHONPATH": str(ROOT)}, "cwd": self._directory}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def finish(self, words: list[str]) -> str:
        process = self.start(words)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return printed


@pytest.mark.sweep
def test_the_tutorial_ends_in_a_network_with_an_archive_and_a_page(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    ports = {":4000": f":{free_port()}", ":8080": f":{free_port()}"}
    for usual, free in ports.items():
        text = text.replace(usual, free)
    heard: list[str] = []
    with ExitStack() as stack:
        terminal = Terminal(tmp_path, stack)
        for words in commands_in(text):
            match words:
                case ["key", *_]:
                    (tmp_path / "network.key").write_text(terminal.finish(words))
                case ["subscribe", "/soccer", *_]:
                    subscriber = terminal.start(words)
                    assert subscriber.stdout is not None
                    read = subscriber.stdout.readline
                    reader = threading.Thread(target=lambda: heard.append(read()))  # noqa: B023
                    reader.start()
                case ["publish", "/soccer/italy", *_]:
                    for _ in range(30):  # a reader waits until the subscriber is there
                        terminal.finish(words)
                        reader.join(0.2)
                        if heard:
                            break
                    assert "1-0" in heard[0]
                case [command, *_] if command in GOES_ON:
                    process = terminal.start(words)
                    assert process.stdout is not None
                    assert process.stdout.readline()
                case _:
                    printed = terminal.finish(words)
        assert '"id": 1' in printed or "'id': 1" in printed
        page = urllib.request.urlopen(f"http://127.0.0.1{ports[':8080']}")
        assert page.status == 200
