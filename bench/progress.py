"""How far a run has come: what experiments cost, what has ended, and the bar or the lines that tell it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from bench.experiment import Experiment
from bench.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_BETWEEN_LINES = 10.0
"""Where the output is not a terminal: a log needs no line a second."""
BAR = 16
"""Characters of the bar: with what is told beside it, a line fits a terminal of 80 columns."""


class ProgressLine:
    """Prints progress to `stream`; call it with each `Progress`, and `close` at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._last = float("-inf")
        self._shown = ""
        self._progress: Progress | None = None
        self._claims = ""

    def decided(self, claims: int, of: int) -> None:
        """Show that `claims` of the `of` claims are decided, by what is there so far."""
        self._claims = f", {claims} of {of} claims decided"

    def __call__(self, progress: Progress) -> None:
        self._progress = progress
        if self._terminal or time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        text = describe(progress, self._claims)
        self._last = time.monotonic()
        if self._terminal:
            # A line that is longer than the terminal could not be written over.
            text = f"{bar(progress)} {text}"[: get_terminal_size().columns - 1]
            self._stream.write(f"\r{text:<{len(self._shown)}}")
            self._stream.flush()
            self._shown = text
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Tell where the run has come to, with the claims of the last look, and end the line."""
        if self._progress is not None:
            self._show(self._progress)
            self._stream.write("\n" if self._terminal else "")
        self._progress, self._shown = None, ""


def bar(progress: Progress) -> str:
    """`[######------]`, filled by the share of the work that is done."""
    filled = int(BAR * progress.share)
    return f"[{'#' * filled}{'-' * (BAR - filled)}]"


def describe(progress: Progress, claims: str = "") -> str:
    """`60 %: 12 of 40 rows, 1 failed, 9 of 28 claims decided, 35 s left`."""
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = progress.seconds_left if progress.done < progress.total else None
    more = f", {_duration(left)} left" if left is not None else ""
    share = f"{100 * progress.share:.0f} %"
    return f"{share}: {progress.done} of {progress.total} rows{failed}{claims}{more}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


# How long an experiment will take, roughly: enough to spread rows evenly over tasks.

SECONDS_PER_SIMULATED_MESSAGE = 2e-8
SECONDS_PER_SIMULATION = 2e-4
SCAMP = 3.0
"""How much longer an event takes whose tables are built as SCAMP builds them."""
SECONDS_PER_JOIN = {
    "unstructured": 5e-3,
    "semi-structured": 1.2e-2,
    "structured": 1e-2,
    "hyparview": 1.2e-2,
}
"""Seconds for one emulated node to join."""
SECONDS_PER_NODE_SECOND = {
    "unstructured": 1e-4,
    "semi-structured": 2e-4,
    "structured": 2.5e-4,
    "hyparview": 1.5e-4,
}
"""Seconds for one emulated node that is at rest, for each second of virtual time."""
SECONDS_PER_COPY = 1.5e-4
"""Seconds for one emulated node, for each event and each of the others that it tells of the event."""
BOOT_SECONDS = 30.0
"""Virtual time before the first event."""
REPAIR_SECONDS = 60.0
"""Virtual time for each crash."""
EVENT_SECONDS = 1.0
"""Virtual time for each event."""
SECONDS_PER_REPLAY = 1.2e-5
"""Seconds for one event, for each hundred processes."""
SECONDS_PER_LIVE_NETWORK = 8.0
SECONDS_PER_LIVE_EVENT = 1.0


def estimated_seconds(experiment: Experiment) -> float:
    """Expected seconds of one core for all repetitions together."""
    events = experiment.repetitions * len(experiment.points())
    if experiment.tier == "model":
        return 1e-4
    if experiment.tier == "simulate":
        messages = sum(n * (math.log(n) + experiment.c + 1) for n in experiment.sizes)
        once = SECONDS_PER_SIMULATION + messages * SECONDS_PER_SIMULATED_MESSAGE
        return once * events * (SCAMP if experiment.mode == "unstructured" else 1.0)
    if experiment.tier == "emulate":
        return _emulated(experiment, events)
    return SECONDS_PER_LIVE_NETWORK + SECONDS_PER_LIVE_EVENT * events


def _emulated(experiment: Experiment, events: int) -> float:
    mode, nodes = experiment.mode, sum(experiment.sizes)
    crashes = sum(share > 0 for share in experiment.failed_series or (experiment.failed,))
    seconds = BOOT_SECONDS + REPAIR_SECONDS * crashes + EVENT_SECONDS * events
    copies = sum(n * (math.log(n) + experiment.c) for n in experiment.sizes) * events
    replayed = sum(len(point.replayed()) for point in experiment.points()) * experiment.replays
    return (
        nodes * SECONDS_PER_JOIN[mode]
        + nodes * seconds * SECONDS_PER_NODE_SECOND[mode]
        + copies * SECONDS_PER_COPY
        + replayed * SECONDS_PER_REPLAY * nodes / 100
    )


# Asked of Spark once a second.

MEANINGFUL = 0.02
"""The share of the work from which on the time left is estimated."""
GOING = 0.5
"""Of what is under way, the most that is taken for done before a task tells."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; failed rows count as done."""

    done: int
    failed: int
    total: int
    share: float
    """The share of the work, by its estimated cost: a few rows are most of it."""
    seconds_left: float | None


class Watch:
    """Reports progress once a second from a thread of its own while a grid runs.

    Rows count as done when their task has ended, though the job that commits them is still under way; through
    Spark Connect, which tells nothing of tasks, when their job has.
    """

    def __init__(
        self, spark: SparkSession, total: int, done: int, report: Callable[[Progress], None]
    ) -> None:
        self._tracker = None if is_connect(spark) else spark.sparkContext.statusTracker()
        self._report = report
        self._total = total
        self._done = done
        self._failed = 0
        self._under_way: dict[str, tuple[int, int, float]] = {}
        """By Spark's job group, the rows of a job that is not committed yet, its tasks, and what it costs."""
        self._cost = self._cost_done = self._ended = self._shown = 0.0
        self._began = self._ended_at = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="progress", daemon=True)

    def expect(self, cost: float, rows: int = 0, done: int = 0) -> None:
        """There is more to run, which costs so much; `rows` that were not known before, some of them done."""
        self._cost += cost
        self._total += rows
        self._done += done

    def started(self, group: str, rows: int, tasks: int, cost: float) -> None:
        """A job of so many rows is under way, in `tasks` tasks."""
        self._under_way[group] = (rows, tasks, cost)

    def finished(self, group: str, failed: int) -> None:
        """The job is committed, with so many rows that failed."""
        rows, _, cost = self._under_way.pop(group)
        self._cost_done += cost
        self._done += rows
        self._failed += failed

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._report(self._progress(0, 0.0, 0.0))

    def _poll(self) -> None:
        while not self._stop.wait(1.0):
            rows, cost, left = 0, 0.0, 0.0
            for group, (count, tasks, seconds) in list(self._under_way.items()):
                share = self._ended_share(group, tasks)
                rows += int(share * count)
                cost += share * seconds
                left += (1 - share) * seconds
            self._report(self._progress(rows, cost, left))

    def _ended_share(self, group: str, tasks: int) -> float:
        """Of the tasks that run the rows of a job, the share that has ended."""
        share = 0.0
        if self._tracker is None:
            return share
        for job in self._tracker.getJobIdsForGroup(group):
            info = self._tracker.getJobInfo(job)
            for number in info.stageIds if info else ():
                stage = self._tracker.getStageInfo(number)
                # Rows are dealt in a stage of another number of tasks.
                if stage is not None and stage.numTasks == tasks:
                    share = max(share, stage.numCompletedTasks / tasks)
        return share

    def _progress(self, rows: int, cost: float, under_way: float) -> Progress:
        now = time.monotonic()
        passed = now - self._began
        done = min(self._total, self._done + rows)
        ended = min(self._cost, self._cost_done + cost)
        if ended > self._ended:
            self._ended, self._ended_at = ended, now
        # Rows take seconds each: until the next one ends, the work goes on about as fast as before.
        speed = self._ended / (self._ended_at - self._began) if self._ended else 1.0
        going = min((now - self._ended_at) * speed, GOING * under_way)
        share = (self._ended + going) / self._cost if self._cost else 1.0
        share = self._shown = min(1.0, max(share, self._shown))  # a bar does not go back
        # The first rows tell how fast this machine is; what runs has been under way for a while, too.
        left = passed * (1 - share) / share if share > MEANINGFUL else None
        return Progress(done, self._failed, self._total, share, left)
