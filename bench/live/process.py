"""The conductor's side of a process that holds nodes."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from typing import Any

from bench.live.holder import hold
from bench.live.orders import Answer, Order
from overlay.errors import CamcastError

START_SECONDS = 120.0
ANSWER_SECONDS = 180.0
END_SECONDS = 30.0


class LiveError(CamcastError):
    """A process of a live run ended, fell silent, or could not do what it was told."""


class HolderProcess:
    """A process that holds nodes. It dies with this one, because its pipe ends then."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=hold, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._deadline = time.monotonic() + START_SECONDS

    def started(self) -> None:
        """Wait until it is up."""
        self.answer()

    def tell(self, order: Order) -> None:
        """Give an order; `answer` waits for its end, so that several processes work at once."""
        try:
            self._pipe.send(order)
        except OSError:
            raise LiveError(f"process {self._process.pid} of a live run has ended") from None
        self._deadline = time.monotonic() + ANSWER_SECONDS

    def answer(self) -> Any:
        """The answer to the last order; `LiveError` when it failed or takes too long."""
        try:
            if not self._pipe.poll(max(0.0, self._deadline - time.monotonic())):
                raise LiveError(f"process {self._process.pid} of a live run does not answer")
            answer: Answer = self._pipe.recv()
        except (EOFError, OSError):
            raise LiveError(f"process {self._process.pid} of a live run has ended") from None
        if answer.error is not None:
            raise LiveError(f"in a process of a live run: {answer.error}")
        return answer.value

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def ended(self) -> None:
        """Wait until it has ended by itself, which it does after `Close`."""
        self._process.join(END_SECONDS)
        self.kill()
