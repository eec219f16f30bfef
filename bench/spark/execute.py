"""Run a grid: rows to executors, results to Parquet, finished rows never again.

The grid is a DataFrame with a row for each experiment. It is cut into jobs, each of which appends its
rows to the Parquet files when it ends, so a killed run loses at most the jobs under way. Long rows are a
task each; short ones are dealt to tasks like cards, dearest first, so that tasks take about as long as each
other and thousands of rows do not become thousands of tasks. Two jobs are under way at a time, so that
no core waits for the last task of a job. Live rows measure time: they come last, alone, one at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.cost import estimated_seconds
from bench.experiment import Experiment
from bench.results import error_table, schema
from bench.spark.executor import run_rows
from bench.spark.watch import Progress, Watch
from bench.store import ResultStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
class Failure:
    """A row that raised, or whose process died: what replays it, and why."""

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
    *,
    processes: bool = False,
) -> list[Failure]:
    """Run what the store does not have yet; return the rows that failed (they are tried again next time).

    With `processes`, what each process of real nodes did is kept, too.
    """
    finished = store.finished_ids(spark)
    todo = [e for e in experiments if e.id not in finished]
    cores = max(1, spark.sparkContext.defaultParallelism)
    watch = Watch(spark, total=len(experiments), done=len(experiments) - len(todo), report=report)
    watch.expect(sum(estimated_seconds(e) for e in todo))
    failures: list[Failure] = []
    live = [Job((experiment,), 1) for experiment in todo if experiment.tier == "live"]
    others = plan([experiment for experiment in todo if experiment.tier != "live"], cores)
    with watch:
        for jobs, at_once in ((others, JOBS_AT_ONCE), (live, 1)):
            with ThreadPoolExecutor(at_once) as pool:
                run = partial(_run_job, spark, store, watch, processes)
                _collect([pool.submit(run, job) for job in jobs], watch, failures)
    return failures


def _collect(
    futures: Iterable[Future[tuple[Job, list[Failure]]]], watch: Watch, failures: list[Failure]
) -> None:
    try:
        for future in futures:
            job, failed = future.result()
            failures += failed
            watch.finished(job.experiments, len(failed))
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _run_job(
    spark: SparkSession, store: ResultStore, watch: Watch, processes: bool, job: Job
) -> tuple[Job, list[Failure]]:
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, f"{len(job.experiments)} experiments")
    watch.started(group, job.experiments, job.tasks)
    try:
        return job, _run(spark, job.experiments, job.tasks, store, processes)
    finally:
        watch.ended(group)


def _run(
    spark: SparkSession,
    experiments: Sequence[Experiment],
    tasks: int,
    store: ResultStore,
    processes: bool,
) -> list[Failure]:
    """Run experiments and keep their results, or keep for one whose process dies that it did.

    A process that dies takes with it all that is committed together: so each half is run again by itself,
    down to the one that dies.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    staged = store.stage()
    run = partial(run_rows, processes=staged / "processes" if processes else None)
    results = deal(spark, experiments, tasks).mapInArrow(run, _spark_schema())
    try:
        failed = store.append(results, staged)
    except (Py4JJavaError, PySparkException) as error:
        if spark.sparkContext._jsc.sc().isStopped():
            raise
        if len(experiments) == 1:
            return [_give_up(spark, experiments[0], f"Spark gave up: {_reason(error)}", store)]
        half = len(experiments) // 2
        return [
            failure
            for part in (experiments[:half], experiments[half:])
            for failure in _run(spark, part, min(tasks, len(part)), store, processes)
        ]
    by_id = {experiment.id: experiment for experiment in experiments}
    return [Failure(by_id[identifier], error) for identifier, error in failed]


def deal(spark: SparkSession, experiments: Sequence[Experiment], tasks: int) -> DataFrame:
    """The experiments as JSON, dealt like cards: row i in partition i mod `tasks`."""
    import pyarrow as pa

    texts = [experiment.as_json() for experiment in experiments]
    # Named, for Spark itself would sort rows by their hash before it deals them.
    to = pa.array([index % tasks for index in range(len(texts))], pa.int32())
    grid = spark.createDataFrame(pa.table({"experiment": texts, "task": to}))
    return grid.repartitionById(tasks, "task").select("experiment")


def _give_up(
    spark: SparkSession, experiment: Experiment, error: str, store: ResultStore
) -> Failure:
    row = error_table(experiment, error).replace_schema_metadata(None)
    store.append(spark.createDataFrame(row, _spark_schema()), store.stage())
    return Failure(experiment, error)


def _reason(error: Exception) -> str:
    """Of the pages that Spark says, the line that tells most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Python worker" in line or "ExecutorLost" in line]
    return (told or lines or [type(error).__name__])[0]


def _spark_schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema())
