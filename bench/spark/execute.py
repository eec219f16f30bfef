"""Run a grid: rows to executors, results to Parquet, finished rows never again.

The grid is a DataFrame with a row for each experiment. It is cut into jobs, each of which appends its
rows to the Parquet files when it ends, so a killed run loses at most the jobs under way. Long rows are a
task each; short ones are dealt to tasks like cards, dearest first, so that tasks take about as long as each
other and thousands of rows do not become thousands of tasks. Two jobs are under way at a time, so that
no core waits for the last task of a job.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.cost import estimated_seconds
from bench.experiment import Experiment
from bench.results import error_row, rows, schema
from bench.store import ResultStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LONG_ROW_SECONDS = 2.0
"""A row expected to take longer than this is a task of its own."""
JOB_SECONDS_PER_CORE = 10.0
"""About how much work one job holds, for each core: what a kill may lose."""
JOBS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Job:
    """Experiments that are committed together, in the order in which they are dealt to tasks."""

    experiments: tuple[Experiment, ...]
    tasks: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; failed rows count as done."""

    done: int
    running: int
    failed: int
    total: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that raised: what replays it, and the last line of its traceback."""

    experiment: Experiment
    error: str


def plan(experiments: Sequence[Experiment], cores: int) -> list[Job]:
    """Cut experiments into jobs of about `JOB_SECONDS_PER_CORE` a core, dearest rows first."""
    dearest_first = sorted(experiments, key=lambda e: (-estimated_seconds(e), e.id))
    jobs: list[Job] = []
    held: list[Experiment] = []
    cost = 0.0
    for experiment in dearest_first:
        held.append(experiment)
        cost += estimated_seconds(experiment)
        if cost >= JOB_SECONDS_PER_CORE * cores:
            jobs.append(_job(held, cores))
            held, cost = [], 0.0
    if held:
        jobs.append(_job(held, cores))
    return jobs


def _job(experiments: list[Experiment], cores: int) -> Job:
    long_rows = sum(estimated_seconds(e) > LONG_ROW_SECONDS for e in experiments)
    tasks = min(len(experiments), long_rows + cores * 2)
    return Job(tuple(experiments), tasks)


def execute(
    spark: SparkSession,
    experiments: Sequence[Experiment],
    store: ResultStore,
    report: Callable[[Progress], None],
) -> list[Failure]:
    """Run what the store does not have yet; return the rows that failed (they are tried again next time)."""
    finished = store.finished_ids(spark)
    todo = [e for e in experiments if e.id not in finished]
    cores = max(1, spark.sparkContext.defaultParallelism)
    watch = _Watch(spark, total=len(experiments), done=len(experiments) - len(todo), report=report)
    watch.expect(sum(estimated_seconds(e) for e in todo))
    failures: list[Failure] = []
    with watch, ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        futures = [pool.submit(_run_job, spark, job, store) for job in plan(todo, cores)]
        _collect(futures, watch, failures)
    return failures


def _collect(
    futures: Iterable[Future[tuple[Job, list[Failure]]]], watch: _Watch, failures: list[Failure]
) -> None:
    try:
        for future in futures:
            job, failed = future.result()
            failures += failed
            watch.finished(job, len(failed))
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _run_job(spark: SparkSession, job: Job, store: ResultStore) -> tuple[Job, list[Failure]]:
    import pyarrow as pa

    grid = pa.table({"experiment": [experiment.as_json() for experiment in job.experiments]})
    # One partition dealt round robin over `tasks`: row i goes to task i mod tasks.
    dealt = spark.createDataFrame(grid).coalesce(1).repartition(job.tasks)
    results = dealt.mapInArrow(run_rows, _spark_schema())
    failed = store.append(results)
    by_id = {experiment.id: experiment for experiment in job.experiments}
    return job, [Failure(by_id[identifier], error) for identifier, error in failed]


def run_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: run each row; a row that raises becomes an error row."""
    import pyarrow as pa

    for batch in batches:
        for text in batch.column(0).to_pylist():
            found = run_one(Experiment.from_json(text))
            yield pa.RecordBatch.from_pylist(found, schema=schema().remove_metadata())


def run_one(experiment: Experiment) -> list[dict[str, Any]]:
    """The result rows of one experiment; never raises."""
    from bench import tiers

    began = time.perf_counter()
    try:
        return rows(experiment, tiers.run(experiment), time.perf_counter() - began)
    except Exception:
        return [error_row(experiment, traceback.format_exc(limit=-4).strip())]


def _spark_schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema())


class _Watch:
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

    def finished(self, job: Job, failed: int) -> None:
        cost = sum(estimated_seconds(experiment) for experiment in job.experiments)
        self._cost_left -= cost
        self._cost_done += cost
        self._done += len(job.experiments)
        self._failed += failed

    def __enter__(self) -> _Watch:
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
