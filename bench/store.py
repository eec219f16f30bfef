"""Where results live: Parquet below one directory, partitioned by suite and tier.

`version.json` names the schema; a directory of another version is refused rather than mixed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.results import SCHEMA_VERSION
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

    def read(self, spark: SparkSession) -> DataFrame:
        """All result rows; `StoreError` naming the directory when there are none or they are damaged."""
        if not any(self.results.rglob("*.parquet")):
            raise StoreError(
                f"no results in {self.directory}: run a suite first (camcast bench run)"
            )
        try:
            frame = spark.read.parquet(str(self.results))
            frame.count()
        except Exception as error:
            raise StoreError(f"damaged results in {self.directory}: {_culprit(error)}") from None
        return frame

    def finished_ids(self, spark: SparkSession) -> set[str]:
        """Experiments that have ended without an error."""
        if not any(self.results.rglob("*.parquet")):
            return set()
        frame = self.read(spark)
        found = frame.where(frame.error.isNull()).select("experiment_id").distinct().collect()
        return {row.experiment_id for row in found}

    def append(self, results: DataFrame) -> list[tuple[str, str]]:
        """Add rows, all or none; return (experiment id, error) of those that failed."""
        # Results are computed once: what fails is read from the copy that is written.
        results = results.persist()
        try:
            failed = (
                results.where(results.error.isNotNull()).select("experiment_id", "error").collect()
            )
            results.write.mode("append").partitionBy("suite", "tier").parquet(str(self.results))
        finally:
            results.unpersist()
        return [(row.experiment_id, row.error) for row in failed]


def _version_in(path: Path) -> object:
    try:
        return json.loads(path.read_text())["schema"]
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _culprit(error: Exception) -> str:
    """The line of Spark's message that names the file, or its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if ".parquet" in line]
    return (named or lines or [type(error).__name__])[0]
