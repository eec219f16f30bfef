"""How a run shows where it is: a bar that is rewritten on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from bench.spark.watch import Progress

SECONDS_BETWEEN_LINES = 10.0
"""Where the output is not a terminal: a log needs no line a second."""
BAR = 24
"""Characters of the bar."""


class ProgressLine:
    """Prints progress to `stream`; call it with each `Progress`, and `close` at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._last = float("-inf")
        self._shown = ""
        self._claims = ""

    def decided(self, claims: int, of: int) -> None:
        """Show that `claims` of the `of` claims are decided."""
        self._claims = f", {claims} of {of} claims decided"

    def __call__(self, progress: Progress) -> None:
        text = describe(progress) + self._claims
        if self._terminal:
            text = f"{bar(progress)} {text}"
            self._stream.write(f"\r{text:<{len(self._shown)}}")
            self._stream.flush()
        elif time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            print(text, file=self._stream, flush=True)
            self._last = time.monotonic()
        self._shown = text

    def close(self) -> None:
        """End the line, so that what comes next is below it."""
        if self._terminal and self._shown:
            self._stream.write("\n")
        elif self._shown:
            print(self._shown, file=self._stream, flush=True)
        self._shown = ""


def bar(progress: Progress) -> str:
    """`[######------]`, filled by the share of the work that is done."""
    filled = int(BAR * progress.share)
    return f"[{'#' * filled}{'-' * (BAR - filled)}]"


def describe(progress: Progress) -> str:
    """`60 %: 12 of 40 rows done, 2 running, 1 failed, about 35 s left`."""
    parts = [
        f"{100 * progress.share:.0f} %: {progress.done} of {progress.total} rows done",
        f"{progress.running} running",
    ]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.seconds_left is not None and progress.done < progress.total:
        parts.append(f"about {_duration(progress.seconds_left)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
