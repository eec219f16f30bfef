"""Two doors for MQTT, each a process of its own."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.pubsub.command_process import camcast, line


class Doors:
    """Two doors. With a directory an archive of /orders and of sessions is there, a process too."""

    def __init__(self, directory: Path | None, stack: ExitStack) -> None:
        self._stack = stack
        self._words = ["--mqtt", "127.0.0.1:0", "--mqtt-retain", "/sensors", "--json"]
        words = ["node"]
        if directory is not None:
            store = f"sqlite:///{directory}/events.db"
            words = ["archive", "--topic", "/orders", "/mqtt-sessions", "--store", store]
            self._words += ["--mqtt-durable", "/orders", "--mqtt-sessions"]
        first = stack.enter_context(camcast(*words, "--json"))
        self._words += ["--bootstrap", json.loads(line(first))["listening"]]
        self.processes: list[subprocess.Popen[str]] = []
        self.ports: list[int] = []
        for index in range(2):
            self.start(index)

    def start(self, index: int) -> None:
        process = self._stack.enter_context(camcast("node", *self._words))
        line(process)
        port = int(json.loads(line(process))["mqtt"].rpartition(":")[2])
        self.ports[index : index + 1] = [port]
        self.processes[index : index + 1] = [process]

    def kill(self, index: int) -> None:
        self.processes[index].kill()
        self.processes[index].wait()
