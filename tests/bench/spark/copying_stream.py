"""A program: copies the events of /soccer to /copies by a Spark stream, until all of them are there.

python -m tests.bench.spark.copying_stream DIRECTORY BOOTSTRAP [MASTER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.spark.session import spark_session
from bench.spark.source import CamcastSource


def copy(directory: Path, bootstrap: str, master: str = "local[2,8]") -> None:
    with spark_session(directory / "spark", master) as spark:
        spark.dataSource.register(CamcastSource)
        events = (
            spark.readStream.format("camcast")
            .option("topic", "/soccer")
            .option("bootstrap", bootstrap)
            .option("maxRowsPerTrigger", 400)
            .option("rowsPerPartition", 100)
            .load()
        )
        query = (
            events.selectExpr("concat(publisher, ' ', run, ' ', number) as origin")
            .writeStream.format("camcast")
            .option("topic", "/copies")
            .option("bootstrap", bootstrap)
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        print("started", flush=True)
        query.awaitTermination()
        print("done", flush=True)


if __name__ == "__main__":
    copy(Path(sys.argv[1]), *sys.argv[2:])
