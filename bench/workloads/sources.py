"""How fast Spark reads a durable topic, beside plain Python on the archive's file and Spark's socket source.

Two publishers' events are put into an SQLite store, an archive is started on it in a process of its own, and
each reader reads all of it. Every reader has the same events, of about 100 bytes as they are stored.
"""

from __future__ import annotations

import argparse
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.players import Players, processor_seconds
from bench.spark.session import spark_session
from bench.workloads.durable import keep_archive
from bench.workloads.workload import Option, Row, RowTable, Setting, Workload, rows_of
from overlay.identity import Identity
from pubsub.archive.protocol.archived_event import pack_event, read_event
from pubsub.archive.protocol.frontier import new_stream
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.sqlite import SqliteStore
from pubsub.data import pack_data
from pubsub.event import Head, make_block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "/soccer"
WARM = 2
"""Times that a reader reads; the last one counts."""
LINES = 1000
"""Lines that are sent at once to the socket source."""
MOST_LINES = 20_000
"""Lines in all: the socket source walks a list from its beginning for every line of a batch, so what it takes
grows with their square."""


def fill(path: Path, rows: int) -> None:
    """A store with the events of two publishers."""
    store = SqliteStore(path)
    begin, sequence = int(time.time()), 0
    for _ in range(2):
        publisher = Identity.create().id
        stream = new_stream(publisher, begin, 7)
        for first in range(1, rows // 2 + 1, 10_000):
            changes = []
            for number in range(first, min(first + 10_000, rows // 2 + 1)):
                sequence += 1
                data = pack_data({"n": number, "team": "Toro", "goals": number % 5})
                block = make_block(publisher + b"speedrun", number, Head(TOPIC), [data])
                body = pack_event(block.encoded)
                changes.append(
                    StoredEvent(TOPIC, sequence, block.id, stream, number, time.time(), body)
                )
            store.write(changes)
            store.sync()
    store.close()


def plain(path: Path) -> int:
    """Plain Python: every event of the file decoded."""
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    count = 0
    for (body,) in file.execute("SELECT body FROM events ORDER BY stream, catenation"):
        read_event(body, TOPIC).data()
        count += 1
    file.close()
    return count


@contextmanager
def archive(path: Path) -> Iterator[str]:
    """The address of an archive on this store."""
    with Players() as players:
        yield players.start(keep_archive, f"sqlite:///{path}", TOPIC).answer()


def by_spark(spark: SparkSession, address: str, **options: Any) -> int:
    reader = spark.read.format("camcast").option("topic", TOPIC).option("bootstrap", address)
    events = reader.options(**options).load()
    row = events.selectExpr("count(data)", "sum(number)").first()
    assert row is not None
    return int(row[0])


def by_socket(spark: SparkSession, rows: int) -> int:
    """Spark's socket source: lines of the same JSON from a thread of this process."""
    line = b'{"n":12345,"team":"Toro","goals":3}\n'
    is_read = threading.Event()

    def serve() -> None:
        taken, _ = listening.accept()
        with taken:
            for first in range(0, rows, LINES):
                taken.sendall(line * min(LINES, rows - first))
            is_read.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        lines = spark.readStream.format("socket").options(
            host="127.0.0.1", port=listening.getsockname()[1]
        )
        counted = lines.load().groupBy().count().writeStream.format("memory")
        query = counted.queryName("lines").outputMode("complete").start()
        try:
            while not (found := spark.table("lines").collect()) or found[0][0] < rows:
                time.sleep(0.05)
        finally:
            is_read.set()
            query.stop()
    return int(found[0][0])


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="camcast-sources-") as directory:
        path = Path(directory) / "events.db"
        fill(path, options.rows)
        yield from _timed("plain Python on the SQLite file", lambda: plain(path))
        with (
            archive(path) as address,
            spark_session(Path(directory) / "spark", "local[2]", is_long=True) as spark,
        ):
            yield from by_all(spark, address, options.rows)


def by_all(spark: SparkSession, address: str, rows: int) -> Iterator[Row]:
    """Each way to read by Spark."""
    from bench.spark.source import CamcastSource

    spark.dataSource.register(CamcastSource)
    raw = {"data": "msgpack"}
    for name, read, times in (
        ("Spark, camcast, data as JSON", lambda: by_spark(spark, address), WARM),
        ("Spark, camcast, data as msgpack", lambda: by_spark(spark, address, **raw), WARM),
        ("Spark, socket source, lines", lambda: by_socket(spark, min(rows, MOST_LINES)), 1),
    ):
        yield from _timed(name, read, times)


def _timed(name: str, read: Callable[[], int], times: int = 1) -> Iterator[Row]:
    """Rows of the last of `times` readings."""
    for _ in range(times):
        began, used = time.perf_counter(), processor_seconds()["all"]
        count = read()
        seconds, used = time.perf_counter() - began, processor_seconds()["all"] - used
    settings: dict[str, Setting] = {"reader": name, "rows": count}
    yield from rows_of(
        settings, {"rate": (count / seconds, "rows/s"), "cpu": (used / count * 1e6, "us/row")}
    )


WORKLOAD = Workload(
    "sources",
    "Durable topics as DataFrames",
    "The same events read from an archive by Spark, from its SQLite file by plain Python, and as lines from "
    "Spark's socket source.",
    (Option("rows", 1_000_000, "events", quick=100_000),),
    run,
    (
        RowTable(
            "sources",
            "Rows a second of each reader, the second time that it reads",
            {"reader": "reader", "rows": "rows"},
            {
                "rows/s": "{rate:,.0f}",
                "CPU us a row": "{cpu:.1f}",
            },
            "Two cores for all; processor time of the archive, Java and Spark's workers together.",
        ),
    ),
    quick_seconds=40,
)
