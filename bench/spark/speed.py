"""How fast Spark reads a durable topic, beside plain Python on the archive's file and Spark's socket source.

    python -m bench.spark.speed --rows 400000

Two publishers' events are put into an SQLite store, an archive is started on it in a process of its own, and
each reader reads all of it. Every reader has the same events, of about 100 bytes as they are stored.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark.session import spark_session
from overlay.identity import Identity
from pubsub.archive.protocol.archived_event import pack_event, read_event
from pubsub.archive.protocol.frontier import new_stream
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.sqlite import SqliteStore
from pubsub.event import Head, make_block, pack_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "/soccer"
WARM = 2
"""Times that a reader reads; the last one counts."""


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
    command = [sys.executable, "-m", "pubsub.cli", "archive", "--topic", TOPIC, "--json"]
    running = subprocess.Popen(
        [*command, "--store", f"sqlite:///{path}"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["listening"]
    finally:
        running.terminate()
        running.wait()


def by_spark(spark: SparkSession, address: str, **options: Any) -> int:
    reader = spark.read.format("camcast").option("topic", TOPIC).option("bootstrap", address)
    events = reader.options(**options).load()
    row = events.selectExpr("count(data)", "sum(number)").first()
    assert row is not None
    return int(row[0])


def by_socket(spark: SparkSession, rows: int) -> int:
    """Spark's socket source: lines of the same JSON from a thread of this process."""
    listening = socket.create_server(("127.0.0.1", 0))
    line = b'{"n":12345,"team":"Toro","goals":3}\n'

    def serve() -> None:
        taken, _ = listening.accept()
        for _ in range(rows // 1000):
            taken.sendall(line * 1000)
        time.sleep(60)

    threading.Thread(target=serve, daemon=True).start()
    lines = spark.readStream.format("socket").options(
        host="127.0.0.1", port=listening.getsockname()[1]
    )
    counted = lines.load().groupBy().count()
    query = counted.writeStream.format("memory").queryName("lines").outputMode("complete").start()
    while not (found := spark.table("lines").collect()) or found[0][0] < rows // 1000 * 1000:
        time.sleep(0.05)
    query.stop()
    return int(found[0][0])


def processor_seconds() -> float:
    """Of this process and all that it has started and that still run: archive, Java, Spark's workers."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            parents[int(place.parent.name)] = int(fields[1])
            used[int(place.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf(
                "SC_CLK_TCK"
            )
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(used.get(pid, 0.0) for pid in own)


def timed(name: str, read: Callable[[], int], times: int = 1) -> None:
    for _ in range(times):
        began, used = time.perf_counter(), processor_seconds()
        count = read()
        seconds, used = time.perf_counter() - began, processor_seconds() - used
    print(
        f"{name:<34} {count:>9,} rows {seconds:>7.2f} s {count / seconds:>10,.0f} rows/s "
        f"{used / count * 1e6:>6.1f} us of processor a row",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="rows a second of each reader")
    parser.add_argument("--rows", type=int, default=400_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="camcast-speed-") as directory:
        path = Path(directory) / "events.db"
        fill(path, rows)
        timed("plain Python on the SQLite file", lambda: plain(path))
        with (
            archive(path) as address,
            spark_session(Path(directory) / "spark", "local[2]") as spark,
        ):
            from bench.spark.source import CamcastSource

            spark.dataSource.register(CamcastSource)
            timed("Spark, camcast, data as JSON", lambda: by_spark(spark, address), WARM)
            raw = {"data": "msgpack"}
            timed("Spark, camcast, data as msgpack", lambda: by_spark(spark, address, **raw), WARM)
            timed("Spark, socket source, lines", lambda: by_socket(spark, rows))


if __name__ == "__main__":
    main()
