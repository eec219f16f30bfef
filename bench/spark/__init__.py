"""Everything that knows of Spark: Java, the session, running a grid, progress; the format "camcast"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.spark.execute import Failure


def run(
    suite: str, spark: SparkSession | None = None, out: str | Path = "bench-results"
) -> list[Failure]:
    """Run a suite, by name or by the path of a TOML file, on a session of the caller or on a new local one.

    `out` is a path or a URI that Spark writes. Finished rows are not run again; the rows that failed are
    returned. `camcast bench report --out` makes the report."""
    import sys
    from contextlib import nullcontext

    from bench.progress import ProgressLine
    from bench.runs import record_run, run_rounds
    from bench.spark.session import spark_session
    from bench.store import ResultStore
    from bench.suites import find_suite

    chosen = find_suite(suite)
    line = ProgressLine(sys.stdout)
    session = nullcontext(spark) if spark is not None else spark_session()
    with session as running:
        store = ResultStore(running, out).open()
        record_run(store, suite)
        try:
            return run_rounds(running, chosen, store, line)[0]
        finally:
            line.close()
