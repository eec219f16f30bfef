"""The processes of a benchmark: each plays a role at the other end of a pipe.

A role is a function of a module, called in a process of its own with its end of the pipe and the arguments
that it was started with. What a role sends is an answer. What goes wrong in a role is an answer, too: code
that waits for one gets `PlayerFailed` with the text.
"""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from overlay import loops
from overlay.errors import CamcastError

ANSWER_SECONDS = 180.0
"""How long an answer may take, where the caller names no other time."""
END_SECONDS = 10.0
"""How long a role may take to end after it was told to."""


Role = Callable[..., Coroutine[Any, Any, None] | None]
"""A function that is played to its end; one that is a coroutine, on an event loop of its own."""


class PlayerFailed(CamcastError):
    """A process of a benchmark ended, fell silent, or could not play its role; the text says which."""


class _Failure:
    """A role's last answer when it raised an exception."""

    def __init__(self, text: str) -> None:
        self.text = text


def play(role: Role, pipe: Connection, arguments: tuple[Any, ...] = ()) -> None:
    """Play a role in this process to its end."""
    try:
        if inspect.iscoroutinefunction(role):
            loops.run(role(pipe, *arguments))
        else:
            role(pipe, *arguments)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the benchmark has ended: nobody waits for an answer
    except CamcastError as error:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = traceback.format_exc()
    else:
        return
    with contextlib.suppress(OSError):
        pipe.send(_Failure(text))


class Line:
    """The conductor's end of a pipe to a role, which may be on another machine."""

    def __init__(self, pipe: Connection, name: str) -> None:
        self._pipe = pipe
        self._name = name

    def tell(self, what: object) -> None:
        """Send an order to the role."""
        try:
            self._pipe.send(what)
        except OSError:
            raise PlayerFailed(f"{self._name} has ended") from None

    def answer(self, within: float = ANSWER_SECONDS) -> Any:
        """The role's next answer; `PlayerFailed` when it failed, ended, or takes longer than `within`
        seconds."""
        try:
            if not self._pipe.poll(max(within, 0.0)):
                raise PlayerFailed(f"{self._name} did not answer within {within:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise PlayerFailed(f"{self._name} has ended") from None
        if isinstance(answer, _Failure):
            raise PlayerFailed(f"{self._name} failed: {answer.text}")
        return answer

    def end(self, within: float = END_SECONDS) -> None:
        """Tell the role to end with the order None."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)

    def kill(self) -> None:
        """End at once: the role ends when its pipe does."""
        self._pipe.close()


def ask_all(lines: Sequence[Line], order: object, within: float = ANSWER_SECONDS) -> list[Any]:
    """Send all an order; their next answers."""
    for line in lines:
        line.tell(order)
    return answers(lines, within)


def answers(lines: Iterable[Line], within: float = ANSWER_SECONDS) -> list[Any]:
    """The next answer of each."""
    return [line.answer(within) for line in lines]


class Player(Line):
    """One process that plays a role. It ends when this process does, because its pipe ends then."""

    def __init__(self, role: Role, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=play, args=(role, theirs, arguments), daemon=True
        )
        self._process.start()
        theirs.close()
        super().__init__(pipe, f"process {self._process.pid} ({role.__name__})")

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the process where it stands; `go_on` lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, as a crash does; nothing happens where it was ended before."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def end(self, within: float = END_SECONDS) -> None:
        """Tell the role to end with the order None; kill the process when it has not ended in time."""
        if self._pipe.closed:
            return
        super().end()
        self._process.join(within)
        self.kill()

    def resident_bytes(self) -> int:
        """Bytes of the process's memory that are in RAM (Linux only)."""
        return resident_bytes(self.pid)


class Players:
    """The processes of one benchmark. Leaving the `with` block ends all of them, the last one first."""

    def __init__(self) -> None:
        self._all: list[Player] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: object, *__: object) -> None:
        until = time.monotonic() + (0.0 if error is not None else END_SECONDS)
        for player in reversed(self._all):
            player.end(max(until - time.monotonic(), 0.2))

    def kill(self) -> None:
        """End all processes at once."""
        for player in self._all:
            player.kill()

    def start(self, role: Role, *arguments: Any) -> Player:
        """Start a process; `answer` of what comes back is the role's first word."""
        player = Player(role, *arguments)
        self._all.append(player)
        return player


def allow_files() -> None:
    """Let this process, and those that it starts, have as many files and sockets as the machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# What processes cost.

TICKS = os.sysconf("SC_CLK_TCK")


def resident_bytes(process: int) -> int:
    """Bytes of a process's memory that are in RAM (Linux only)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def seconds_of(process: int) -> float:
    """Processor seconds that a process has used, without those that it started (Linux only)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def processor_seconds() -> dict[str, float]:
    """Of this process and all that it has started, those that have ended included; in all, and Java alone."""
    parents: dict[int, int] = {}
    ticks: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            head, _, tail = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has just ended
        fields = tail.split()
        parents[int(entry.name)] = int(fields[1])
        name = head.partition("(")[2]
        # Its own time, and that of children it has waited for; Java's are Python workers.
        ticks[int(entry.name)] = (name, sum(map(int, fields[11 : 13 if name == "java" else 15])))
    found = {"java": 0.0, "all": 0.0}
    for process, (name, spent) in ticks.items():
        if _descends(process, os.getpid(), parents):
            found["all"] += spent / TICKS
            if name == "java":
                found["java"] += spent / TICKS
    return found


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process != ancestor and process in parents:
        process = parents[process]
    return process == ancestor
