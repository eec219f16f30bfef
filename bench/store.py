"""Where results live: Parquet below one place, a path or any URI that Spark writes (hdfs, s3a, abfss...).

    results/commit=ID/suite=S/tier=T/*.parquet      tidy rows
    processes/commit=ID/suite=S/tier=T/*.parquet    what each process did, if asked for
    commits/commit=ID/*.parquet                     the manifest: a row for each experiment of the commit

A commit has a name of its own. Its files are written first and its manifest, one small file, last: rows count
when their manifest is there. So what a killed run left half written is never read, whatever the file system
does when files are renamed, and no lock is needed: two runs may write at the same time. Where both have run
the same experiment, the rows of the first commit count. A table format such as Delta would give the same
and more, and needs jars on every cluster; nothing here changes a row, so the manifest is enough.

Everything goes through DataFrames, and so through Spark Connect, too.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.results import SCHEMA_VERSION, schema
from bench.spark.session import is_connect
from bench.spark.start import SparkError, reason
from bench.traces import schema as process_schema
from overlay.errors import CamcastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MANIFEST = "version int, experiment_id string, error string"
LISTED = 1000
"""The most failed experiments of one commit that are told."""


class StoreError(CamcastError):
    """The place holds no results, results of another version, or damaged files, or cannot be used."""


def is_uri(place: str) -> bool:
    """Whether a place is named for Spark, as s3a://bucket/traces; anything else is a path of this machine."""
    return "://" in place


def as_uri(place: str) -> str:
    """How Spark is told of a place."""
    return place.rstrip("/") if is_uri(place) else Path(place).resolve().as_uri()


class ResultStore:
    """The results at a place, which is made when it is first written to."""

    def __init__(self, spark: SparkSession, place: str | Path) -> None:
        self.spark = spark
        self.place = str(place)
        self._uri = as_uri(self.place)

    def open(self) -> ResultStore:
        """`StoreError` when the place holds results of another version, or cannot be read."""
        found = self._manifests().select("version").distinct().limit(LISTED)
        with self.telling():
            versions = {row.version for row in found.collect()} - {SCHEMA_VERSION}
        if versions:
            raise StoreError(
                f"{self.place} holds results of schema {versions.pop()} and this is schema "
                f"{SCHEMA_VERSION}: choose another place with --out, or remove that one"
            )
        return self

    @property
    def is_empty(self) -> bool:
        with self.telling():
            return self._manifests().isEmpty()

    def read(self, table: str = "results") -> DataFrame:
        """All rows of a table that count, read when they are asked for (see `telling`); none where there is
        none."""
        from pyspark.sql import functions as sql

        columns = _columns(table).add("commit", "string")
        rows = self._parquet(table, columns)
        if rows is None:
            return self.spark.createDataFrame([], columns)
        own = rows.where(sql.col("commit").isin(self.commits()))
        beaten = sql.broadcast(self._beaten())
        return own.join(beaten, ["commit", "experiment_id"], "left_anti").drop("commit")

    def commits(self) -> list[str]:
        """The names of the commits."""
        with self.telling():
            found = self._manifests().select("commit").distinct().collect()
        return sorted(row.commit for row in found)

    def finished(self) -> DataFrame:
        """The ids of the experiments that have ended without an error."""
        return self._manifests().where("error IS NULL").select("experiment_id").distinct()

    def finished_ids(self) -> set[str]:
        with self.telling():
            return {row.experiment_id for row in self.finished().collect()}

    def append(self, results: DataFrame) -> list[tuple[str, str]]:
        """Add rows, each experiment's all or none; return (experiment id, error) of those that failed, at
        most `LISTED`. A column `processes` becomes rows of that table."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        commit = _new_name()
        place = f"{self._uri}/results/commit={commit}"
        with self.telling(writing=True):
            results.write.partitionBy("suite", "tier").parquet(place)
        written = self.spark.read.schema(results.schema).parquet(place)
        if "processes" in results.columns:
            rows = written.selectExpr("experiment_id", "suite", "tier", "inline(processes)")
            rows.write.partitionBy("suite", "tier").parquet(
                f"{self._uri}/processes/commit={commit}"
            )
        errors = Observation()
        manifest = (  # one task, for one file: without a shuffle
            written.selectExpr(f"{SCHEMA_VERSION} AS version", "experiment_id", "error")
            .coalesce(1)
            .distinct()
            .observe(errors, sql.count("error").alias("failed"))
        )
        own = f"{self._uri}/commits/commit={commit}"
        manifest.write.parquet(own)
        if not errors.get["failed"]:
            return []
        failed = self.spark.read.schema(MANIFEST).parquet(own).where("error IS NOT NULL")
        return [(row.experiment_id, row.error) for row in failed.limit(LISTED).collect()]

    def keep(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Add a few objects to a small table, such as that of runs: one file, in a directory of its own."""
        lines = [(json.dumps(row),) for row in rows]
        with self.telling(writing=True):
            frame = self.spark.createDataFrame(lines, "value string").coalesce(1)
            frame.write.text(f"{self._uri}/{table}/{_new_name()}")

    def kept(self, table: str) -> list[dict[str, Any]]:
        """The rows of a small table, in the order of `keep`."""
        place = f"{self._uri}/{table}"
        reader = self.spark.read.option("recursiveFileLookup", True)
        with self.telling():
            try:
                found = reader.text(place).selectExpr("value", "input_file_name() AS file")
                lines = found.orderBy("file").collect()
            except Exception as error:
                if _is_missing(error):
                    return []
                raise
        return [json.loads(line.value) for line in lines]

    @contextmanager
    def telling(self, writing: bool = False) -> Iterator[None]:
        """Around whatever makes Spark read or write here: what goes wrong becomes a `StoreError` in one
        sentence; a damaged file is named."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            name = re.search(r"/([^/\s:]+\.parquet)", str(error))
            told = reason(str(error))
            if told is not None:
                what = "written to" if writing else "read"
                raise StoreError(f"{self.place} cannot be {what}: {told}") from None
            if name is None or writing:
                raise
            raise StoreError(
                f"damaged results in {self.place}: {name.group(1)} cannot be read; remove that file "
                "and run its suite again"
            ) from None

    def _manifests(self) -> DataFrame:
        """A row for each experiment of each commit."""
        columns = f"{MANIFEST}, commit string"
        found = self._parquet("commits", columns)
        return self.spark.createDataFrame([], columns) if found is None else found

    def _parquet(self, table: str, columns: StructType | str) -> DataFrame | None:
        """The files of a table, committed or not; None where there is no such directory yet."""
        with self.telling():
            try:
                found = self.spark.read.schema(columns).parquet(f"{self._uri}/{table}")
                found.schema  # noqa: B018  (Spark Connect looks at the place only when it is asked)
            except Exception as error:
                if not _is_missing(error):
                    raise
                return None
        return found

    def _beaten(self) -> DataFrame:
        """Experiments of commits that do not count: another commit has them, without an error or earlier."""
        self._manifests().createOrReplaceTempView("camcast_manifests")
        return self.spark.sql(
            """SELECT commit, experiment_id FROM (
                   SELECT commit, experiment_id, row_number() OVER (
                       PARTITION BY experiment_id ORDER BY error IS NOT NULL, commit) AS place
                   FROM camcast_manifests)
               WHERE place > 1"""
        )


def _new_name() -> str:
    """Of a commit: no other has it, and names are in the order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"


def _columns(table: str) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    if table == "results":
        return from_arrow_schema(schema())
    partitions = StructType().add("suite", "string").add("tier", "string")
    return StructType([*from_arrow_schema(process_schema()), *partitions])


def _is_missing(error: Exception) -> bool:
    return "PATH_NOT_FOUND" in str(error)


# Small files beside them, such as a page, by Hadoop's file systems.


def write_text(spark: SparkSession, place: str, text: str) -> None:
    """Write a file, in place of what is there; `SparkError` where that cannot be."""
    if not is_uri(place):
        path = Path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if is_connect(spark):
        raise SparkError(
            f"{place} cannot be written through Spark Connect, which writes tables only: name a path of "
            "this machine, or use --master"
        )
    from py4j.protocol import Py4JJavaError

    java = spark.sparkContext._jvm
    assert java is not None
    path_class = java.org.apache.hadoop.fs.Path
    try:
        target = path_class(place)
        files = target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        stream = files.create(target, True)
        stream.write(bytearray(text.encode()))
        stream.close()
    except Py4JJavaError as error:
        told = reason(str(error)) or str(error).splitlines()[0]
        raise SparkError(f"{place} cannot be written: {told}") from None
