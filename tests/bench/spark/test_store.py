"""Results on a file system that is not POSIX, and what is said where a place cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.spark.execute import execute
from bench.spark.start import reason
from bench.store import ResultStore, StoreError
from pubsub.cli import main
from tests.bench.spark.grids import by_a_plain_loop, grid, in_order
from tests.bench.spark.object_store import REFUSED, ObjectStore, object_store
from tests.bench.spark.test_grid import silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def objects() -> Iterator[ObjectStore]:
    with object_store() as server:
        yield server


def test_results_live_on_any_file_system_of_hadoop_and_count_with_their_manifest(
    spark: SparkSession, objects: ObjectStore
) -> None:
    store = ResultStore(spark, f"{objects.uri}/team/results").open()
    assert store.is_empty
    execute(spark, grid(2), store, silent)
    execute(spark, grid(2), store, silent)
    assert len(store.commits()) == 1  # nothing was left to run
    assert in_order([row.asDict() for row in store.read().collect()]) == by_a_plain_loop(grid(2))
    for name in objects.names("/team/results/commits"):
        del objects.objects[name]
    assert store.finished_ids() == set()
    assert store.read().count() == 0


@pytest.mark.sweep
def test_a_suite_runs_and_is_reported_and_compared_by_uri(
    spark: SparkSession, objects: ObjectStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text("[[grid]]\ntier = 'model'\nsizes = [[100, 10]]\nloss = [0.0, 0.1]\n")
    out = f"{objects.uri}/out"
    assert main(["bench", "run", str(suite), "--out", out, "--report"]) == 0
    assert f"the report is {out}/report.html" in capsys.readouterr().out
    assert b"camcast bench run" in objects.objects["/out/report.html"]
    assert main(["bench", "report", "--out", out]) == 0
    assert main(["bench", "compare", out, out]) == 0
    assert "0 changed" in capsys.readouterr().out


def test_a_place_that_cannot_be_used_is_told_in_one_sentence(
    spark: SparkSession, objects: ObjectStore, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreError, match="permission denied"):
        ResultStore(spark, f"{objects.uri}{REFUSED}/results").open()
    for command in (["run", "quick", "--out"], ["report", "--out"], ["analyze"]):
        assert main(["bench", *command, "nowhere://bucket/results"]) == 1
        said = capsys.readouterr().err.strip()
        assert "Spark has no file system for nowhere://" in said
        assert "\n" not in said
    assert main(["bench", "analyze", f"{objects.uri}{REFUSED}/traces"]) == 1
    said = capsys.readouterr().err.strip()
    assert "permission denied" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "spark.jars.packages"),
        ("software.amazon.awssdk...: AccessDenied (Service: S3, 403)", "permission denied"),
        ("java.net.ConnectException: Connection refused", "does not answer"),
        ("java.lang.NullPointerException", None),
    ],
)
def test_what_other_file_systems_say(text: str, told: str | None) -> None:
    found = reason(text)
    assert found is None if told is None else found is not None and told in found
