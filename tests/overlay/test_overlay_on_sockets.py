"""32 nodes in four processes on real sockets; one process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TTL = 6.0
PROCESSES = 4
NODES = 8
PATIENCE = 90.0


class Process:
    """A process with several overlays."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen

    def ask(self, command: object) -> Any:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.write(f"{command}\n")
        self.popen.stdin.flush()
        return json.loads(self.popen.stdout.readline())


@contextmanager
def overlay_process(bootstrap: list[str]) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.overlay.overlay_process", str(NODES), str(TTL)]
    with subprocess.Popen(
        [*command, *bootstrap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as popen:
        try:
            yield Process(popen)
            if popen.poll() is None:
                assert popen.stdin is not None
                popen.stdin.close()
                assert popen.wait(30) == 0
        finally:
            popen.kill()


def poll(process: Process, command: object, wanted: object) -> None:
    """Ask until the answer is the wanted one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = process.ask(command)
        if (sorted(answer) if isinstance(answer, list) else answer) == wanted:
            return
        assert time.monotonic() < deadline, f"never {wanted}; last {answer}"
        time.sleep(0.1)


def test_32_nodes_in_four_processes_find_each_other_and_forget_a_killed_process() -> None:
    with ExitStack() as stack:
        first = stack.enter_context(overlay_process([]))
        bootstrap = first.ask("contacts")[0][1]
        processes = [first] + [
            stack.enter_context(overlay_process([bootstrap])) for _ in range(PROCESSES - 1)
        ]
        members = [[i for i, _ in process.ask("contacts")] for process in processes]
        for process in processes:
            assert process.ask("announce") == NODES
        everyone = sorted(member for group in members for member in group)
        for process, group in zip(processes, members, strict=True):
            poll(process, 100, sorted(set(everyone) - {group[0]}))
            poll(process, "size", PROCESSES * NODES)
            assert len(set(process.ask(12))) == 12
        processes[-1].popen.kill()
        left = sorted(member for group in members[:-1] for member in group)
        for process, group in zip(processes[:-1], members[:-1], strict=True):
            poll(process, 100, sorted(set(left) - {group[0]}))
            poll(process, "size", (PROCESSES - 1) * NODES)
