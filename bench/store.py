"""Where results live: Parquet below one directory, partitioned by suite and tier.

`version.json` names the schema; a directory of another version is refused rather than mixed.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.results import SCHEMA_VERSION, schema
from overlay.errors import CamcastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StoreError(CamcastError):
    """The directory holds no results, results of another version, or damaged files."""


class ResultStore:
    """The results below `directory`, which is made when it is first written to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.results = directory / "results"
        self.processes = directory / "processes"
        self._staging = directory / "staging"
        self._version = directory / "version.json"

    def open(self) -> ResultStore:
        """Make or check the directory; `StoreError` when it is of another version."""
        if self._version.exists():
            found = _version_in(self._version)
            if found != SCHEMA_VERSION:
                raise StoreError(
                    f"{self.directory} holds results of schema {found} and this is schema "
                    f"{SCHEMA_VERSION}: choose another directory with --out, or remove that one"
                )
            return self
        if self.results.exists():
            raise StoreError(
                f"{self.directory} has results but no version.json: not written by camcast"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self._version.write_text(json.dumps({"schema": SCHEMA_VERSION}) + "\n")
        return self

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the directory while rows are added; `StoreError` when another run holds it."""
        with (self.directory / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(
                    f"another run writes to {self.directory}: wait for it, or choose another --out"
                ) from None
            shutil.rmtree(self._staging, ignore_errors=True)  # what a killed run left half written
            yield
            shutil.rmtree(self._staging, ignore_errors=True)

    def read(self, spark: SparkSession) -> DataFrame:
        """All result rows, read when they are asked for (see `naming_damage`)."""
        from pyspark.sql.pandas.types import from_arrow_schema

        if self.is_empty:
            raise StoreError(
                f"no results in {self.directory}: run a suite first (camcast bench run)"
            )
        return spark.read.schema(from_arrow_schema(schema())).parquet(str(self.results))

    @property
    def is_empty(self) -> bool:
        return not any(self.results.rglob("*.parquet"))

    def finished_ids(self, spark: SparkSession) -> set[str]:
        """Experiments that have ended without an error."""
        if self.is_empty:
            return set()
        frame = self.read(spark)
        with self.naming_damage():
            found = frame.where(frame.error.isNull()).select("experiment_id").distinct().collect()
        return {row.experiment_id for row in found}

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Around whatever makes Spark read the rows: a damaged file becomes a `StoreError` naming it."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            name = re.search(r"/([^/\s:]+\.parquet)", str(error))
            if name is None:
                raise
            raise StoreError(
                f"damaged results in {self.directory}: {name.group(1)} cannot be read; remove that file "
                "and run its suite again"
            ) from None

    def stage(self) -> Path:
        """A place for what `append` will add: executors may leave rows of processes in its `processes`."""
        return (self._staging / uuid.uuid4().hex).resolve()

    def append(self, results: DataFrame, staged: Path) -> list[tuple[str, str]]:
        """Add rows, each experiment's all or none; return (experiment id, error) of those that failed.

        Written apart and moved file by file: appending in place, Spark's jobs would commit and clear away
        each other's files, and those of a run that was killed. Results move last: what has them is not run
        again.
        """
        import pyarrow.parquet as parquet

        results.write.partitionBy("suite", "tier").parquet(str(staged / "results"))
        failed: list[tuple[str, str]] = []
        for source in sorted((staged / "results").rglob("*.parquet")):
            read = parquet.ParquetFile(source).read(columns=["experiment_id", "error"])
            failed += [(r["experiment_id"], r["error"]) for r in read.to_pylist() if r["error"]]
        _move(staged / "processes", self.processes)
        _move(staged / "results", self.results)
        shutil.rmtree(staged)
        return failed


def _move(staged: Path, place: Path) -> None:
    """The Parquet files below one directory to the same places below another."""
    for source in sorted(staged.rglob("*.parquet")):
        target = place / source.relative_to(staged)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def _version_in(path: Path) -> object:
    try:
        return json.loads(path.read_text())["schema"]
    except (ValueError, KeyError, TypeError):
        return "unknown"
