"""A grid on a real local Spark: what lands, what is run again, what a failure costs."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from bench.progress import Progress
from bench.results import CommunityResult
from bench.spark import execute as execute_module
from bench.spark.execute import execute
from bench.spark.executor import run_dealt, run_one
from bench.store import ResultStore
from bench.suites import expand
from bench.suites.grid import distinct, read_suite
from tests.bench.spark.grids import by_a_plain_loop, grid, in_order, result_files, rows_of, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silent(progress: Progress) -> None:
    pass


def test_spark_starts_without_a_java_of_the_machine(spark: SparkSession) -> None:
    java = spark.sparkContext._gateway.jvm.java.lang.System
    assert "java-home" in java.getenv("JAVA_HOME")
    assert spark.range(3).count() == 3


@pytest.mark.parametrize("tasks", [1, 4, 5])
def test_rows_are_dealt_like_cards(tasks: int) -> None:
    texts = [experiment.as_json() for experiment in grid()]
    for task in range(tasks):
        number = pa.record_batch([pa.array([task])], ["id"])
        found = pa.Table.from_batches(run_dealt(texts, tasks, False, [number]))
        assert set(found["experiment_id"].to_pylist()) == {one.id for one in grid()[task::tasks]}


IMPOSSIBLE = dataclasses.replace(
    grid()[0], tier="live", mode="structured", loss=0.1, failed=0.0, seed=4711
)
"""It raises when it is run."""


def test_a_run_goes_on_where_the_last_one_stopped_and_a_row_that_fails_does_not_sink_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Three runs: one that stops, one with a row that fails, and one with nothing left but that row."""
    store = ResultStore(spark, tmp_path / "out").open()
    assert execute(spark, grid()[:5], store, silent) == []
    first = {path: path.stat().st_mtime_ns for path in result_files(tmp_path / "out")}
    seen: list[Progress] = []
    [failure] = execute(spark, (IMPOSSIBLE, *grid()), store, seen.append)
    assert failure.experiment == IMPOSSIBLE
    assert "the live tier loses nothing" in failure.error
    rows = stored(Path(store.place))
    assert [row["seed"] for row in rows if row["error"]] == [4711]
    # Bit for bit what a plain loop gives.
    assert [row for row in rows if not row["error"]] == by_a_plain_loop(grid())
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert (seen[-1].done, seen[-1].failed, seen[-1].total) == (13, 1, 13)
    # It is tried again, and only it.
    commits = len(store.commits())
    again = execute(spark, (IMPOSSIBLE, *grid()), store, silent)
    assert [failure.experiment for failure in again] == [IMPOSSIBLE]
    assert len(store.commits()) == commits + 1
    assert [row for row in stored(Path(store.place)) if not row["error"]] == by_a_plain_loop(grid())
    # What a killed run left half written is not read.
    half = tmp_path / "out" / "results" / "commit=killed" / "suite=small" / "tier=model"
    half.mkdir(parents=True)
    (half / "part.parquet").write_bytes(b"PAR1 and then the power went")
    ids = {one.id for one in grid()}
    read = store.read().where("error IS NULL").select("experiment_id").collect()
    assert {row.experiment_id for row in read} == store.finished_ids() == ids


def test_what_two_runs_have_both_done_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs that began at the same time: neither has seen the other's commits."""
    one, two = (ResultStore(spark, tmp_path / "out").open() for _ in range(2))
    two.finished_ids = set  # type: ignore[method-assign]
    execute(spark, grid(4), one, silent)
    execute(spark, grid(6), two, silent)
    both = distinct([*grid(4), *grid(6)])
    assert len(both) < len(grid(4)) + len(grid(6))
    assert in_order([row.asDict() for row in one.read().collect()]) == by_a_plain_loop(both)
    assert stored(tmp_path / "out") == by_a_plain_loop(both)


def test_what_each_process_did_is_kept_beside_the_results_if_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = ResultStore(spark, tmp_path / "out").open()
    [network] = expand(
        "of my own",
        "test",
        tier="emulate",
        mode="unstructured",
        sizes=[(6, 3)],
        p_sel_series=(0.5, 1.0),
        repetitions=2,
    )
    assert execute(spark, (network, *grid(3)), store, silent, processes=True) == []
    kept = [row.asDict() for row in store.read("processes").collect()]
    assert {(row["suite"], row["tier"], row["experiment_id"]) for row in kept} == {
        ("of my own", "emulate", network.id)
    }
    results = [row for row in stored(Path(store.place)) if row["experiment_id"] == network.id]
    for p_sel in network.p_sel_series:
        for community, size in enumerate(network.sizes):
            own = [r for r in kept if (r["p_sel"], r["community"]) == (p_sel, community)]
            all_of = [r for r in results if (r["p_sel"], r["community"]) == (p_sel, community)]
            assert len({row["process"] for row in own}) == len(own) == size
            assert {row["events"] for row in own} == {2}
            for each, together in (
                ("received", "useful"),
                ("duplicates", "duplicates"),
                ("sent_inside", "messages_inside"),
                ("sent_upward", "messages_upward"),
            ):
                of_all = sum(r["value"] for r in all_of if r["metric"] == together)
                assert sum(r[each] for r in own) == of_all
            assert fmean(r["table_entries"] for r in own) == pytest.approx(
                fmean(r["value"] for r in all_of if r["metric"] == "table_entries")
            )


def test_a_large_grid_is_made_by_spark_and_goes_on_where_it_stopped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "[[grid]]\ntier = 'model'\nsizes = [[100, 20], [50, 5]]\nfailed = [0.0, 0.1, 0.2]\n"
        "[[grid]]\ntier = 'simulate'\nrepetitions = [1, 2]\nsizes = [[20, 5]]\n"
    )
    listed = read_suite(path).experiments
    monkeypatch.setattr("bench.suites.grid.LARGE", 7)
    suite = read_suite(path)
    assert (len(suite), suite.experiments) == (8, ())
    store = ResultStore(spark, tmp_path / "out").open()
    execute(spark, listed[:3], store, silent)
    monkeypatch.setattr(execute_module, "JOB_SECONDS_PER_CORE", 1e-3)  # three jobs
    seen: list[Progress] = []
    assert execute(spark, (), store, seen.append, grids=suite.grids) == []
    assert stored(tmp_path / "out") == by_a_plain_loop(listed)
    assert (seen[-1].done, seen[-1].total) == (8, 8)
    kept = [row for path in result_files(tmp_path / "out") for row in rows_of(path)]
    assert len(kept) == len(by_a_plain_loop(listed))  # nothing was run twice


def test_a_result_that_does_not_fit_the_schema_fails_its_row_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strange = CommunityResult(
        repetition=0,
        community=0,
        processes=5,
        alive=5,
        reached="many",  # type: ignore[arg-type]
        everyone=None,
    )
    monkeypatch.setattr("bench.tiers.run", lambda experiment: [(experiment, [strange])])
    [row] = run_one(grid()[0]).to_pylist()
    assert "TypeError" in row["error"]
    assert row["seed"] == grid()[0].seed


def test_a_row_whose_process_dies_is_named_with_its_seed_and_does_not_sink_the_rest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = dataclasses.replace(grid()[0], seed=4711)

    def run_or_die(
        texts: Sequence[str], tasks: int, processes: bool, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if deadly.as_json() in texts[number::tasks]:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield from run_dealt(texts, tasks, processes, [batch])

    monkeypatch.setattr(execute_module, "run_dealt", run_or_die)
    store = ResultStore(spark, tmp_path / "out").open()
    seen: list[Progress] = []
    [failure] = execute(spark, (*grid(3), deadly), store, seen.append)
    assert failure.experiment == deadly
    assert "Python worker exited unexpectedly" in failure.error
    rows = stored(Path(store.place))
    assert [row["seed"] for row in rows if row["error"]] == [4711]
    assert [row for row in rows if not row["error"]] == by_a_plain_loop(grid(3))
    assert (seen[-1].done, seen[-1].failed, seen[-1].total) == (4, 1, 4)
