"""How far a run has come, told once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.cost import estimated_seconds
from bench.experiment import Experiment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; failed rows count as done."""

    done: int
    running: int
    failed: int
    total: int
    seconds_left: float | None


class Watch:
    """Reports progress once a second from a thread of its own while a grid runs."""

    def __init__(
        self, spark: SparkSession, total: int, done: int, report: Callable[[Progress], None]
    ) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._report = report
        self._total = total
        self._done = done
        self._failed = 0
        self._cost_left = self._cost_done = 0.0
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="progress", daemon=True)

    def expect(self, cost: float) -> None:
        self._cost_left = cost

    def finished(self, experiments: Sequence[Experiment], failed: int) -> None:
        cost = sum(map(estimated_seconds, experiments))
        self._cost_left -= cost
        self._cost_done += cost
        self._done += len(experiments)
        self._failed += failed

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._report(self._progress(running=0))

    def _poll(self) -> None:
        while not self._stop.wait(1.0):
            running = 0
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                running += info.numActiveTasks if info else 0
            self._report(self._progress(running))

    def _progress(self, running: int) -> Progress:
        rate = self._cost_done / max(1e-9, time.monotonic() - self._began)
        left = max(0.0, self._cost_left) / rate if rate else None
        return Progress(self._done, running, self._failed, self._total, left)
