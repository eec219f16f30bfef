"""Run a grid: rows to executors, results to Parquet, finished rows never again.

The grid is a DataFrame with a row for each experiment; a large one is made by the executors themselves, of
which the driver knows the axes alone. It is cut into jobs, each of which appends its
rows to the Parquet files when it ends, so a killed run loses at most the jobs under way. Long rows are a
task each; short ones are dealt to tasks like cards, dearest first, so that tasks take about as long as each
other and thousands of rows do not become thousands of tasks. Two jobs are under way at a time, so that
no core waits for the last task of a job. Formulas and simulations come first, for claims are decided from
them alone. While other jobs are under way, more rows may be asked for by what has ended. Live rows measure
time: they come last, alone, one at a time.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.progress import Progress, Watch, estimated_seconds
from bench.results import error_table
from bench.spark.executor import (
    GATHERED,
    made_of_grid,
    result_schema,
    run_across,
    run_dealt,
    run_rows,
)
from bench.spark.session import is_connect
from bench.store import ResultStore
from bench.suites.grid import Grid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LONG_ROW_SECONDS = 2.0
"""A row expected to take longer than this is a task of its own."""
JOB_SECONDS_PER_CORE = 30.0
"""About how much work one job holds, for each core: what a kill may lose. A commit takes about half a second
of processor time."""
BESIDE_SECONDS_PER_CORE = 10.0
"""The same for rows during which more may be asked for: that waits for the jobs under way."""
TASK_SECONDS = 2.0
"""How much work of short rows a task holds: at the end, a core without a task waits. A task costs some
hundredths of a second; with tasks of 4 s the harness took 5.6 % of two minutes, with 2 s 3.4 %."""
JOBS_AT_ONCE = 2
ROW_SECONDS = 3e-4
"""What a row costs beside its work: the experiment is made, named, and its results become rows."""
CANCELLED = "SPARK_JOB_CANCELLED"
"""In what Spark says of a job that somebody ended, as by Ctrl-C: no row is to blame."""
SAMPLE = 200
"""How many experiments of a grid are looked at to guess what it costs."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that raised, or whose process died: what replays it, and why."""

    experiment: Experiment
    error: str


@dataclass(frozen=True, slots=True)
class ListedJob:
    """Experiments that are committed together. The driver has them, in the order in which they are dealt to
    tasks."""

    experiments: tuple[Experiment, ...]
    tasks: int

    @property
    def rows(self) -> int:
        return len(self.experiments)

    @property
    def ids(self) -> list[str]:
        """Of those experiments that the driver has."""
        return [one.id for one in self.experiments]

    @property
    def cost(self) -> float:
        """Expected seconds of one core."""
        return sum(map(estimated_seconds, self.experiments))

    def results(self, spark: SparkSession, store: ResultStore, processes: bool) -> DataFrame:
        """What comes out of those experiments that the store does not have, by as many tasks.

        Dealt like cards: experiment i to task i mod `tasks`. They go with the code that runs them, and are
        not shuffled."""
        texts = [experiment.as_json() for experiment in self.experiments]
        numbers = spark.range(0, self.tasks, 1, self.tasks)
        run = partial(run_dealt, texts, self.tasks, processes)
        return numbers.mapInArrow(run, _spark_schema(processes))

    def halves(self) -> tuple[ListedJob, ListedJob]:
        half = self.rows // 2
        parts = self.experiments[:half], self.experiments[half:]
        one, two = (ListedJob(part, min(self.tasks, len(part))) for part in parts)
        return one, two

    def first(self) -> Experiment:
        return self.experiments[0]

    def of_ids(self, spark: SparkSession, ids: Collection[str]) -> dict[str, Experiment]:
        """Some of the experiments, by their ids."""
        return {one.id: one for one in self.experiments if one.id in ids}


@dataclass(frozen=True, slots=True)
class AcrossJob(ListedJob):
    """One live experiment, its nodes on as many executors as there are tasks, all of them at once."""

    def results(self, spark: SparkSession, store: ResultStore, processes: bool) -> DataFrame:
        tasks = spark.range(0, self.tasks, 1, self.tasks)
        return tasks.mapInArrow(partial(run_across, self.first()), _spark_schema(), barrier=True)


@dataclass(frozen=True, slots=True)
class GridJob:
    """Experiments of a grid by their places, made where they are run."""

    grid: Grid
    begin: int
    end: int
    tasks: int
    cost: float

    @property
    def rows(self) -> int:
        return self.end - self.begin

    @property
    def ids(self) -> list[str]:
        return []

    def results(self, spark: SparkSession, store: ResultStore, processes: bool) -> DataFrame:
        done = store.finished().withColumnRenamed("experiment_id", "id")
        asked = self._experiments_in(spark)
        left = asked if done.isEmpty() else asked.join(done, "id", "left_anti")
        run = partial(run_rows, processes=processes)
        return left.select("experiment").mapInArrow(run, _spark_schema(processes))

    def _experiments_in(self, spark: SparkSession) -> DataFrame:
        places = spark.range(self.begin, self.end, 1, self.tasks)
        return places.mapInArrow(partial(made_of_grid, self.grid), "experiment string, id string")

    def halves(self) -> tuple[GridJob, GridJob]:
        half = (self.begin + self.end) // 2
        less = replace(self, tasks=max(1, self.tasks // 2), cost=self.cost / 2)
        return replace(less, end=half), replace(less, begin=half)

    def first(self) -> Experiment:
        return self.grid.at(self.begin)

    def of_ids(self, spark: SparkSession, ids: Collection[str]) -> dict[str, Experiment]:
        made = self._experiments_in(spark)
        found = made.where(made.id.isin(list(ids))).collect()
        return {row.id: Experiment.from_json(row.experiment) for row in found}


Job = ListedJob | GridJob


def plan_grid(grid: Grid, cores: int) -> list[GridJob]:
    """Cut a grid into jobs of about `JOB_SECONDS_PER_CORE` a core, by what some of its experiments cost."""
    looked_at = range(0, len(grid), max(1, len(grid) // SAMPLE))
    each = ROW_SECONDS + fmean(estimated_seconds(grid.at(place)) for place in looked_at)
    size = max(cores, int(JOB_SECONDS_PER_CORE * cores / each))
    return [
        GridJob(grid, begin, end, min(cores * 2, end - begin), each * (end - begin))
        for begin in range(0, len(grid), size)
        for end in (min(begin + size, len(grid)),)
    ]


def plan(
    experiments: Sequence[Experiment], cores: int, seconds: float | None = None
) -> list[ListedJob]:
    """Cut experiments into jobs of about so many seconds a core, `JOB_SECONDS_PER_CORE` unless told; dearest
    rows first."""
    most = cores * (JOB_SECONDS_PER_CORE if seconds is None else seconds)
    dearest_first = sorted(experiments, key=lambda e: (-estimated_seconds(e), e.id))
    jobs: list[ListedJob] = []
    held: list[Experiment] = []
    cost = 0.0
    for experiment in dearest_first:
        held.append(experiment)
        cost += estimated_seconds(experiment)
        if cost >= most:
            jobs.append(_job(held, cores))
            held, cost = [], 0.0
    if held:
        jobs.append(_job(held, cores))
    return jobs


def _job(experiments: list[Experiment], cores: int) -> ListedJob:
    costs = [estimated_seconds(experiment) for experiment in experiments]
    short = [cost for cost in costs if cost <= LONG_ROW_SECONDS]
    long_rows = len(costs) - len(short)
    tasks = min(len(costs), long_rows + max(cores, math.ceil(sum(short) / TASK_SECONDS)))
    return ListedJob(tuple(experiments), tasks)


def execute(
    spark: SparkSession,
    experiments: Sequence[Experiment],
    store: ResultStore,
    report: Callable[[Progress], None],
    *,
    grids: Sequence[Grid] = (),
    processes: bool = False,
    across: int = 1,
    first: Collection[Experiment] = (),
    more: Callable[[Collection[str]], Sequence[Experiment]] = lambda left: (),
) -> list[Failure]:
    """Run what the store does not have yet; return the rows that failed (they are tried again next time).

    With `processes`, what each process of real nodes did is kept, too. The nodes of a live row are on
    `across` executors. Of real nodes, those in `first` come before the others. `more` is called whenever a
    job has ended and another is under way, with the ids of what is not committed yet: what it answers comes
    next.
    """
    finished = store.finished_ids() if experiments else set()
    todo = [e for e in experiments if e.id not in finished]
    cores = parallelism(spark)
    kind = AcrossJob if across > 1 else ListedJob
    live: list[Job] = [kind((one,), across) for one in todo if one.tier == "live"]
    quick = [one for one in todo if one.tier in GATHERED]
    early = {one.id for one in first}
    real = [one for one in todo if one.tier not in (*GATHERED, "live")]
    others: list[Job] = [*plan(quick, cores)]
    others += plan([one for one in real if one.id in early], cores)
    seconds = BESIDE_SECONDS_PER_CORE if early else None
    others += plan([one for one in real if one.id not in early], cores, seconds)
    others += [job for grid in grids for job in plan_grid(grid, cores)]
    total = len(experiments) + sum(map(len, grids))
    watch = Watch(spark, total=total, done=len(experiments) - len(todo), report=report)
    watch.expect(sum(job.cost for job in (*others, *live)))
    run = partial(_run_job, spark, store, watch, processes)

    def added(left: Collection[str]) -> list[Job]:
        asked = more(left)
        known = store.finished_ids() if asked else set()
        jobs: list[Job] = [*plan([one for one in asked if one.id not in known], cores)]
        watch.expect(
            sum(job.cost for job in jobs), len(asked), len(asked) - sum(j.rows for j in jobs)
        )
        return jobs

    with watch:
        return [*_run_all(others, JOBS_AT_ONCE, run, added), *_run_all(live, 1, run)]


def _run_all(
    jobs: Sequence[Job],
    at_once: int,
    run: Callable[[Job], list[Failure]],
    added: Callable[[Collection[str]], list[Job]] = lambda left: [],
) -> list[Failure]:
    """Run jobs, some at once; what failed of each. Where one raises, those that wait are not begun.

    What `added` answers to the ids that are left comes next; it is asked while a job is under way.
    """
    waiting = list(jobs)
    under_way: dict[Future[list[Failure]], Job] = {}
    failures: list[Failure] = []
    with ThreadPoolExecutor(at_once) as pool:
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                job = waiting.pop(0)
                under_way[pool.submit(run, job)] = job
            left = {one for job in (*waiting, *under_way.values()) for one in job.ids}
            waiting[:0] = added(left)
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                under_way.pop(future)
                failures += future.result()
    return failures


def _run_job(
    spark: SparkSession, store: ResultStore, watch: Watch, processes: bool, job: Job
) -> list[Failure]:
    group = uuid.uuid4().hex
    if not is_connect(spark):
        spark.sparkContext.setJobGroup(group, f"{job.rows} experiments")
    watch.started(group, job.rows, job.tasks, job.cost)
    failed = _run(spark, job, store, processes)
    watch.finished(group, len(failed))
    return failed


def _run(spark: SparkSession, job: Job, store: ResultStore, processes: bool) -> list[Failure]:
    """Run experiments and keep their results, or keep for one whose process dies that it did.

    A process that dies takes with it all that is committed together: so each half is run again by itself,
    down to the one that dies.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        failed = dict(store.append(job.results(spark, store, processes)))
    except (Py4JJavaError, PySparkException) as error:
        if CANCELLED in str(error) or not _answers(spark):
            raise
        if job.rows == 1:
            return [_give_up(spark, job.first(), f"Spark gave up: {_reason(error)}", store)]
        return [one for part in job.halves() for one in _run(spark, part, store, processes)]
    named = job.of_ids(spark, failed.keys()) if failed else {}
    return [Failure(named[identifier], error) for identifier, error in failed.items()]


def _give_up(
    spark: SparkSession, experiment: Experiment, error: str, store: ResultStore
) -> Failure:
    row = error_table(experiment, error).replace_schema_metadata(None)
    store.append(spark.createDataFrame(row, _spark_schema()))
    return Failure(experiment, error)


def _reason(error: Exception) -> str:
    """Of the pages that Spark says, the line that tells most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Python worker" in line or "ExecutorLost" in line]
    return (told or lines or [type(error).__name__])[0]


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once: into so many parts it cuts what nobody else does."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    parts = spark.range(1 << 16).selectExpr("spark_partition_id() AS part").distinct()
    return max(1, parts.count())


def _answers(spark: SparkSession) -> bool:
    """Whether the session still runs something: with a stopped one every row would seem to fail."""
    try:
        return spark.range(1).count() == 1
    except Exception:
        return False


def _spark_schema(processes: bool = False) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(result_schema(processes))
