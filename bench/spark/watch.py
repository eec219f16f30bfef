"""How far a run has come, told once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MEANINGFUL = 0.02
"""The share of the work from which on the time left is estimated."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; failed rows count as done."""

    done: int
    running: int
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
        self._cost = self._cost_done = 0.0
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="progress", daemon=True)

    def expect(self, cost: float) -> None:
        self._cost = cost

    def started(self, group: str, rows: int, tasks: int, cost: float) -> None:
        """A job of so many rows is under way, in `tasks` tasks."""
        self._under_way[group] = (rows, tasks, cost)

    def ended(self, group: str) -> None:
        self._under_way.pop(group, None)

    def finished(self, rows: int, cost: float, failed: int) -> None:
        self._cost_done += cost
        self._done += rows
        self._failed += failed

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._report(self._progress(0, 0, 0.0))

    def _poll(self) -> None:
        while not self._stop.wait(1.0):
            running, rows, cost = 0, 0, 0.0
            for group, (count, tasks, seconds) in list(self._under_way.items()):
                active, share = self._job(group, tasks)
                running += active
                rows += int(share * count)
                cost += share * seconds
            self._report(self._progress(running, rows, cost))

    def _job(self, group: str, tasks: int) -> tuple[int, float]:
        """Tasks of a job that run, and the share that has ended of those that run its rows."""
        running, share = 0, 0.0
        if self._tracker is None:
            return tasks, 0.0
        for job in self._tracker.getJobIdsForGroup(group):
            info = self._tracker.getJobInfo(job)
            for number in info.stageIds if info else ():
                stage = self._tracker.getStageInfo(number)
                if stage is not None:
                    running += stage.numActiveTasks
                    # Rows are dealt in a stage of another number of tasks.
                    if stage.numTasks == tasks:
                        share = max(share, stage.numCompletedTasks / tasks)
        return running, share

    def _progress(self, running: int, rows: int, cost: float) -> Progress:
        passed = time.monotonic() - self._began
        done = min(self._total, self._done + rows)
        ended = min(self._cost, self._cost_done + cost)
        share = ended / self._cost if self._cost else 1.0
        # The first rows tell how fast this machine is; what runs has been under way for a while, too.
        left = passed * (1 - share) / share if share > MEANINGFUL else None
        return Progress(done, running, self._failed, self._total, share, left)
