"""Traces as a Spark DataFrame: a task reads whole files, and whatever is wrong is named by file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.traces import COLUMN_TYPES, TraceFileError, trace_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = (".jsonl", ".parquet")
ROWS_AT_ONCE = 10_000


def trace_files(places: Sequence[Path]) -> list[Path]:
    """The files named, and those ending in .jsonl or .parquet below the directories named.

    `TraceFileError` when one of them is no trace from its very first row.
    """
    found: list[Path] = []
    for place in places:
        if not place.is_dir():
            found.append(place)
            continue
        inside = sorted(path for path in place.rglob("*") if path.suffix in ENDINGS)
        if not inside:
            raise TraceFileError(
                f"no traces in {place}: none of its files ends in .jsonl or .parquet"
            )
        found += inside
    # A file that is no trace at all is told before Spark has even started.
    for path in found:
        next(trace_rows(path), None)
    return list(dict.fromkeys(path.resolve() for path in found))


def read_traces(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """All rows of the files, kept by Spark until it stops; `TraceFileError` for the first bad file."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    named = spark.createDataFrame(pa.table({"path": [str(path) for path in files]}))
    tasks = min(len(files), 4 * max(1, spark.sparkContext.defaultParallelism))
    rows = named.coalesce(1).repartition(tasks).mapInArrow(_rows, from_arrow_schema(_schema()))
    rows = rows.persist()
    bad = rows.where(rows.error.isNotNull()).select("error").orderBy("error").first()
    if bad is not None:
        raise TraceFileError(bad.error)
    return rows.drop("error")


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the rows of each file; a file that is wrong ends in a row with the error."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield from _file(Path(path))


def _file(path: Path) -> Iterator[pa.RecordBatch]:
    held: list[dict[str, Any]] = []
    try:
        for row in trace_rows(path):
            held.append(row)
            if len(held) == ROWS_AT_ONCE:
                yield _batch(held)
                held = []
    except TraceFileError as error:
        held.append({"error": str(error)})
    if held:
        yield _batch(held)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _schema()
    return pa.RecordBatch.from_pydict(
        {name: [row.get(name) for row in rows] for name in schema.names}, schema=schema
    )


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"time": pa.float64(), "hops": pa.int32()}
    names = (*COLUMN_TYPES, "error")
    return pa.schema([(name, kinds.get(name, pa.string())) for name in names])
