"""`camcast bench watch`: an audit of running nodes, a spread time behind them, by Structured Streaming.

Nodes write traces in parts (`--trace 'traces/*.jsonl'`, docs/traces.md); each part is a file that appears
when it is whole. The state of each community (`bench.analysis.minutes`) is kept by Spark in its checkpoint,
so a stream that is killed goes on where it was. Complete minutes are kept as JSON below `OUT/minutes`, by
day, one directory for each micro-batch: a batch that is run again writes the same directory again.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.analysis.minutes import COUNTED, Community, alerts
from bench.analysis.trace_files import SCHEMA
from bench.cli import new_command
from bench.spark.session import add_spark_options
from bench.store import as_uri
from overlay.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

ALERTS = "/camcast/alerts"
SHOWN = 600
"""The most rows of the page: of one day, the newest."""
REFRESH = 10
"""Seconds after which the page loads itself again."""
OUTPUT = (
    "topic string, minute bigint, "
    + ", ".join(f"{name} bigint" for name in COUNTED)
    + ", p50 double, p99 double"
)
HEADS = ("topic", "minute", *COUNTED, "p50 ms", "p99 ms")
COMMUNITIES = """
    explode(CASE WHEN kind <> 'publish' THEN array(topic) ELSE array_union(array('/'),
        transform(sequence(1, greatest(size(parts), 1)),
            n -> concat('/', array_join(slice(parts, 1, n), '/')))) END) AS community"""
"""In SQL: a publication is looked at in its topic and in all topics above it, other rows in their own."""


def add_command(commands: Any) -> None:
    about = "audit running nodes from their traces, minute by minute, as they are written"
    more, example = (
        f"{about} (docs/traces.md says what traces are)",
        "s3a://team/traces --out s3a://team/audit",
    )
    parser = new_command(commands, "watch", watch, about, more, example)
    parser.add_argument("traces", help="where the nodes' traces appear: a path, or a URI")
    parser.add_argument(
        "--out", default="watch", help="where minutes, page and checkpoint are kept"
    )
    parser.add_argument(
        "--spread",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="within which an event should have reached everyone (default: 30)",
    )
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="between looks (default: 5)"
    )
    parser.add_argument(
        "--most-missed", type=float, default=0.0, metavar="SHARE", help="above it is an alert"
    )
    parser.add_argument(
        "--latest", type=float, default=5.0, metavar="SECONDS", help="a p99 above it is an alert"
    )
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help=f"publish alerts on {ALERTS} of this network, too"
    )
    parser.add_argument("--durable", action="store_true", help="alerts go to an archive, once")
    parser.add_argument("--once", action="store_true", help="look at what is there, and end")
    add_spark_options(parser)


def watch(arguments: argparse.Namespace) -> int:
    """Print each minute when it is complete, until interrupted."""
    from bench.spark.session import session_of

    if arguments.spread <= 0 or arguments.every <= 0:
        raise UsageError("--spread and --every are numbers of seconds above 0")
    if arguments.remote:
        raise UsageError("watch makes its page in the driver: use --master in place of --remote")
    with session_of(arguments) as spark:
        query = start(spark, arguments)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
    return 0


def start(spark: SparkSession, arguments: argparse.Namespace) -> StreamingQuery:
    """The running stream; `UsageError` when the traces cannot be read."""
    from pyspark.errors import PySparkException

    if arguments.bootstrap:
        from bench.spark.source import CamcastSource

        spark.dataSource.register(CamcastSource)
    out = as_uri(arguments.out)
    try:
        minutes = complete_minutes(trace_stream(spark, as_uri(arguments.traces)), arguments.spread)
        writer = minutes.writeStream.foreachBatch(Teller(spark, arguments)).outputMode("append")
        writer = writer.option("checkpointLocation", f"{out}/checkpoint")
        if arguments.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{arguments.every} seconds").start()
    except PySparkException as error:
        from bench.analysis.trace_files import reason_of

        raise UsageError(f"no traces can be watched: {reason_of(str(error))}") from None


def trace_stream(spark: SparkSession, uri: str) -> DataFrame:
    """Rows of traces below a place, as files appear; rows that are none of a trace are left out."""
    reader = spark.readStream.schema(SCHEMA).option("recursiveFileLookup", True)
    lines = reader.option("pathGlobFilter", "*.jsonl*").json(uri)
    tables = reader.option("pathGlobFilter", "*.parquet").parquet(uri)
    return lines.unionByName(tables).where(
        "time IS NOT NULL AND node IS NOT NULL AND topic IS NOT NULL AND kind IN "
        "('publish', 'receive', 'duplicate', 'drop', 'join', 'leave')"
    )


def complete_minutes(rows: DataFrame, spread: float) -> DataFrame:
    """A row for each community and minute, when no event of the minute is waited for any more."""
    own = rows.selectExpr(
        "*", "timestamp_seconds(time) AS moment", "filter(split(topic, '/'), p -> p <> '') AS parts"
    )
    watched = (
        own.selectExpr("*", COMMUNITIES).drop("parts").withWatermark("moment", f"{spread} seconds")
    )
    return watched.groupBy("community").applyInPandasWithState(
        Accounts(spread), OUTPUT, "packed binary", "append", "EventTimeTimeout"
    )


class Accounts:
    """What Spark calls with the new rows of a community and its state."""

    def __init__(self, spread: float) -> None:
        self._spread = spread

    def __call__(self, key: tuple[str], frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        community = Community.unpack(bytes(state.get[0])) if state.exists else Community()
        if not state.hasTimedOut:
            for frame in frames:
                clean = frame.astype(object).where(frame.notna(), None)
                for row in clean.to_dict("records"):
                    community.note(row)
        watermark = state.getCurrentWatermarkMs() / 1000
        found = community.close(watermark, self._spread)
        state.update((community.pack(),))
        state.setTimeoutTimestamp(int((watermark + self._spread) * 1000) + 1)
        if found:
            yield pd.DataFrame([{"topic": key[0], **row} for row in found])


class Teller:
    """Tells of each micro-batch: on the terminal, on the page, and by alerts."""

    def __init__(self, spark: SparkSession, arguments: argparse.Namespace) -> None:
        self._spark = spark
        self._asked = arguments

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in batch.orderBy("minute", "topic").collect()]
        rows = [row for row in rows if row["expected"] or row["late"] or row["parasites"]]
        if not rows:
            return
        day = f"{as_uri(self._asked.out)}/minutes/day={_clock(rows[0]['minute'])[:10]}"
        kept = self._spark.createDataFrame(rows, OUTPUT).coalesce(1)
        kept.write.mode("overwrite").json(f"{day}/batch={number}")
        for row in rows:
            print(line(row), flush=True)
        wrong = alerts(rows, self._asked.most_missed, self._asked.latest)
        for row in wrong:
            print(f"ALERT {row['topic']} {_clock(row['minute'])}: {row['alert']}", flush=True)
        if wrong and self._asked.bootstrap:
            self._publish(wrong, number)
        self._write_page(day)

    def _publish(self, wrong: list[dict[str, Any]], number: int) -> None:
        """Alerts as events; with an archive, each of them once though the batch is run again."""
        events = [{**row, "community": row.pop("topic")} for row in wrong]
        columns = OUTPUT.replace("topic string", "community string") + ", alert string"
        sink = self._spark.createDataFrame(events, columns).coalesce(1).write.format("camcast")
        sink = sink.option("topic", ALERTS).option("bootstrap", self._asked.bootstrap)
        sink = sink.option("durable", str(self._asked.durable).lower())
        sink.option("batch", f"{self._asked.out} {number}").mode("append").save()

    def _write_page(self, day: str) -> None:
        from bench.store import write_text

        newest = self._spark.read.schema(OUTPUT).json(day).orderBy("minute", ascending=False)
        last = [row.asDict() for row in newest.limit(SHOWN).collect()]
        write_text(self._spark, f"{self._asked.out}/watch.html", page(last))


def line(row: dict[str, Any]) -> str:
    """A complete minute for the terminal."""
    counts = ", ".join(f"{row[name]} {name}" for name in COUNTED if row[name] or name == "missed")
    late = "" if row["p50"] is None else f", p50 {_ms(row['p50'])} ms, p99 {_ms(row['p99'])} ms"
    return f"{_clock(row['minute'])} {row['topic']}: {counts}{late}"


def page(rows: list[dict[str, Any]]) -> str:
    """The last minutes of every topic, newest first; it loads itself again."""
    body = "".join(
        f"<tr{' class=wrong' if row['missed'] or row['parasites'] else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
        + "</tr>\n"
        for row in rows
    )
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    return (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="{REFRESH}">'
        f"<title>camcast: {len(rows)} minutes</title><style>{STYLE}</style>"
        f"<h1>camcast, minute by minute</h1><table><tr>{heads}</tr>\n{body}</table>\n"
    )


STYLE = (
    "body{font:15px system-ui;margin:2em}td,th{padding:.2em .7em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.wrong{background:#fde2e1}"
    "@media(prefers-color-scheme:dark){body{background:#14181f;color:#e4e7ec}.wrong{background:#5c1f1f}}"
)


def _cells(row: dict[str, Any]) -> list[str]:
    counts = [str(row[name]) for name in COUNTED]
    times = ["-" if row[name] is None else _ms(row[name]) for name in ("p50", "p99")]
    return [row["topic"], _clock(row["minute"]), *counts, *times]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


def _clock(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")
