"""Traces as a Spark DataFrame: local files, or whatever Spark reads by a URI; a row that is wrong is named.

Spark itself reads and checks the rows, JSON lines by the schema of a trace. Only the file of a row that is
wrong is read again in Python, to name the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from bench.spark.start import reason
from bench.store import is_uri
from bench.traces import KIND_NEEDS, NEEDED, TraceFileError, trace_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")
SCHEMA = (
    "time double, node string, kind string, topic string, event string, peer string, hops int, "
    "detail string"
)
CORRUPT, FILE = "corrupt", "file"
"""Columns beside those of a trace: a line that does not fit the schema, and where a row comes from."""

_WRONG = " OR ".join(
    (
        f"{CORRUPT} IS NOT NULL",
        *(f"{name} IS NULL" for name in NEEDED),
        *(
            f"(kind = '{kind}' AND {name} IS NULL)"
            for kind, names in KIND_NEEDS.items()
            for name in names
        ),
    )
)
"""In SQL: the row is none of a trace."""


def trace_files(places: Sequence[str]) -> list[str]:
    """The places named, and in place of a directory of this machine its files that end as traces do.

    `TraceFileError` when a file of this machine is not a trace from its very first row. What a URI names is
    looked at by Spark.
    """
    found: list[str] = []
    for place in places:
        path = Path(place)
        if is_uri(place) or not path.is_dir():
            found.append(place)
            continue
        inside = sorted(
            one for one in path.rglob("*") if one.name.endswith(ENDINGS) and one.name[0] != "."
        )
        if not inside:
            raise TraceFileError(
                f"no traces in {place}: none of its files ends in .jsonl or .parquet"
            )
        found += map(str, inside)
    local = [place for place in found if not is_uri(place)]
    for place in local:  # a file that is not a trace is reported before Spark has started
        next(trace_rows(Path(place)), None)
    return list(dict.fromkeys(one if is_uri(one) else str(Path(one).resolve()) for one in found))


def read_traces(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """All rows of the places; `TraceFileError` for a file that is not a trace."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows = _rows(spark, [one if is_uri(one) else Path(one).as_uri() for one in places])
        wrong = rows.where(_WRONG).select(FILE, CORRUPT).first()
    except (Py4JJavaError, PySparkException) as error:
        raise TraceFileError(f"no traces can be read: {reason_of(str(error))}") from None
    if wrong is not None:
        raise _error(wrong[FILE], wrong[CORRUPT])
    return rows.drop(CORRUPT, FILE)


def _rows(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    by_ending = {end: [uri for uri in uris if uri.endswith(end)] for end in ENDINGS}
    folders = [uri for uri in uris if not uri.endswith(ENDINGS)]
    frames = []
    for end, own in by_ending.items():
        for places, below in ((own, False), (folders, True)):
            if places:
                frames.append(_of_kind(spark, end, places, below))
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    return rows


def _of_kind(spark: SparkSession, end: str, places: Sequence[str], below: bool) -> DataFrame:
    """The rows of files with one ending, or of those below directories."""
    from pyspark.sql import functions as sql

    schema = SCHEMA if end == ".parquet" else f"{SCHEMA}, {CORRUPT} string"
    reader = spark.read.schema(schema)
    if below:
        reader = reader.option("recursiveFileLookup", True).option("pathGlobFilter", f"*{end}")
    if end == ".parquet":
        rows = reader.parquet(*places).withColumn(CORRUPT, sql.lit(None).cast("string"))
    else:
        rows = reader.option("columnNameOfCorruptRecord", CORRUPT).json(list(places))
    named = rows.withColumn(FILE, sql.input_file_name())
    return named if end == ".parquet" else named.persist()  # lines are parsed once


def _error(uri: str, text: str | None) -> TraceFileError:
    """What is wrong with a row of a file: by its line, where the file is on this machine."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        try:
            for _ in trace_rows(Path(unquote(parsed.path))):
                pass
        except TraceFileError as error:
            return error
    where = f": {text[:80]}" if text else ""
    return TraceFileError(f"{uri} has a row that is not one of a trace{where}")


def reason_of(text: str) -> str:
    """Of the pages that Spark says, the part that tells what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = (line for line in lines if "Exception" in line)
    return reason(text) or next(told, lines[0] if lines else "no reason told")
