"""The commands that a reader is shown: all are understood; each block of them does what it says on this
machine, and those of the tutorial do what it says. `NOT_RUN` has the blocks that are not run, and why."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
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
SHELL = re.compile(r"^```sh\n(.*?)^```|((?:^    \S[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
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


SERVES = {"node", "archive", "dashboard", "distributor"}
GOES_ON = SERVES | {"subscribe", "receive", "group", "top", "mosquitto_sub", "curl -N"}
NOT_RUN = {
    "make ": "they take minutes, and `make test` runs this",
    "camcast bench ": "they take minutes; tests/bench runs each benchmark in a small size",
    "camcast node --trace ": "they go with benchmarks, and tests/pubsub/test_trace.py has the files",
    "--discover": "it needs a network whose hosts find each other; tests/pubsub/test_lan.py has one",
    "192.0.2.": "it needs two hosts; tests/pubsub/archive/test_hand_over_command.py has them",
    "10.0.0.1": "it needs Spark; tests/bench/spark runs such programs",
    "/etc/camcast": "it needs five hosts; tests/pubsub/test_five_hosts.py has them",
    "camcast right ": "KEY and RIGHT stand for what commands print; tests/pubsub/test_rights.py has them",
    "opentelemetry-instrument": "it is a command of another package",
    "--key-file network.key": "the blocks of the tutorial follow each other: below",
    "camcast archive --topic /soccer --replay": "it names no address: it would be found by nobody",
    "pytest ": "it runs tests",
    "python -m tests.": "it runs for minutes",
    "pip install": "it changes this machine",
}
"""What stands in blocks of commands that are not run, and why."""

SECONDS = 30.0


def blocks() -> Iterator[Any]:
    for page in PAGES:
        for number, found in enumerate(SHELL.finditer(page.read_text()), 1):
            text = re.sub(r"^    ", "", found[1] or found[2], flags=re.MULTILINE)
            is_command = re.search(r"^(camcast|mosquitto_|curl|make|python|pytest) ?", text, re.M)
            if is_command and not any(one in text for one in NOT_RUN):
                yield pytest.param(text, id=f"{page.stem}:{number}")


def statements(text: str) -> Iterator[str]:
    """The commands of a block, one after the other, those that go over several lines included."""
    waiting = ""
    for line in text.splitlines():
        waiting = f"{waiting}\n{line}" if waiting else line
        here = re.search(r"<<'(\w+)'", waiting)
        if here and line != here[1]:
            continue
        try:
            words = shlex.split(waiting, comments=True)
        except ValueError:
            continue  # a quotation goes on
        if words:
            yield waiting
        waiting = ""
    assert not waiting


class Reader:
    """Somebody who types a block's commands, each that goes on in a terminal of its own."""

    def __init__(self, directory: Path, stack: ExitStack, ports: dict[str, str]) -> None:
        self._directory = directory
        self._stack = stack
        self._ports = ports
        self._running: list[tuple[str, subprocess.Popen[str], list[str]]] = []
        program = directory / "bin" / "camcast"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pubsub.cli "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        self._env = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path, "PYTHONUNBUFFERED": "1"}

    def type(self, command: str) -> None:
        words = shlex.split(command, comments=True)
        name = words[1] if words[0] == "camcast" else " ".join(words[: 2 if "-N" in words else 1])
        for usual, free in self._ports.items():
            command = re.sub(rf"(127\.0\.0\.1:|-p ){usual}\b", rf"\g<1>{free}", command)
        if name in GOES_ON:
            self._begin(command)
        else:
            self._finish(command, is_heard="publish" in name or "pub" in name or "--json" in words)

    def _begin(self, command: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._directory,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        printed: list[str] = []
        stdout = process.stdout
        assert stdout is not None
        threading.Thread(target=lambda: printed.extend(stdout), daemon=True).start()
        self._running.append((command, process, printed))
        if re.match(r"camcast (node|archive|distributor|dashboard)", command):
            served = re.findall(r"--(?:listen|mqtt|websocket|http|wsrm) \S+:(\d+)", command)
            self._until(
                lambda: bool(printed) and all(port in "".join(printed) for port in served), command
            )

    def _finish(self, command: str, is_heard: bool) -> None:
        """`is_heard`: those who follow the topic print something; a reader waits until they are there."""
        listeners = [
            printed
            for started, _, printed in self._running
            if re.match(r"camcast (subscribe|receive)|mosquitto_sub|curl -N", started)
        ]

        def run() -> bool:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._directory,
                env=self._env,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            if is_heard:
                time.sleep(0.2)
            return not is_heard or all(listeners)

        self._until(run, command)

    def _until(self, is_true: Any, what: str) -> None:
        end = time.monotonic() + SECONDS
        while not is_true():
            for command, process, printed in self._running:
                assert process.poll() is None, (command, printed)
            assert time.monotonic() < end, what
            time.sleep(0.05)

    def look(self) -> None:
        """What goes on, goes on."""
        for command, process, printed in self._running:
            assert process.poll() is None, (command, printed)


@pytest.mark.sweep
@pytest.mark.parametrize("text", list(blocks()))
def test_a_block_of_commands_does_what_it_says(text: str, tmp_path: Path) -> None:
    for program in ("mosquitto_sub", "curl"):
        if program in text and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    ports = {usual: str(free_port()) for usual in re.findall(r"127\.0\.0\.1:(\d+)", text)}
    (tmp_path / "match.mp4").write_bytes(bytes(1_000_000))
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack, ports)
        if "4000" in ports and "--listen 127.0.0.1:4000" not in text:
            reader.type("camcast node --listen 127.0.0.1:4000 --subscribe /soccer")
        for command in statements(text):
            reader.type(command)
        reader.look()


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
                case [command, *_] if command in SERVES:
                    process = terminal.start(words)
                    assert process.stdout is not None
                    assert process.stdout.readline()
                case _:
                    printed = terminal.finish(words)
        assert '"id": 1' in printed or "'id': 1" in printed
        page = urllib.request.urlopen(f"http://127.0.0.1{ports[':8080']}")
        assert page.status == 200
