"""`camcast bench watch` over traces as they appear: the counts of an audit, and nothing lost by a kill."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.analysis.minutes import alerts
from bench.analysis.watch import ALERTS, Teller, start
from tests.bench.spark.archives import Network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES = [f"{number:040x}" for number in range(4)]
BEGIN = 1_800_000_000 // 60 * 60
MINUTES = 5


def rows(minute: int) -> list[dict[str, Any]]:
    """A minute of six events in /a/b, which /a wants, too; the last node misses every third event."""
    begin = BEGIN + 60 * minute
    found: list[dict[str, Any]] = []
    if minute == 0:
        found += [{"time": begin, "node": n, "kind": "join", "topic": "/a/b"} for n in NODES]
        found.append({"time": begin, "node": NODES[0], "kind": "join", "topic": "/a"})
    for number in range(6):
        event = f"{100 * minute + number:032x}"
        at = begin + 10 * number + 1
        own = {"event": event, "topic": "/a/b"}
        found.append({"time": at, "node": NODES[0], "kind": "publish", **own})
        for node in NODES[1 : 4 if number % 3 else 3]:
            came = {"peer": NODES[0], "hops": 1}
            found.append({"time": at + 0.1, "node": node, "kind": "receive", **own, **came})
        found.append(
            {"time": at + 0.1, "node": NODES[0], "kind": "receive", "hops": 1, **own, "topic": "/a"}
        )
    return found


def write(directory: Path, minute: int) -> None:
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{minute}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows(minute)))
    hidden.rename(directory / f"{minute}.jsonl")


def minutes(out: Path, batch: str = "*") -> list[dict[str, Any]]:
    nothing = {"p50": None, "p99": None}  # Spark leaves out what is null
    found = [
        nothing | json.loads(line)
        for path in out.glob(f"minutes/*/batch={batch}/*.json")
        for line in path.read_text().splitlines()
    ]
    return sorted(found, key=lambda row: (row["minute"], row["topic"]))


def check(found: list[dict[str, Any]]) -> None:
    """All minutes but the last ones, whose events may still come."""
    assert len(found) == 2 * (MINUTES - 1)
    for index, row in enumerate(found):
        wide = row["topic"] == "/a"
        expected = {"published": 6, "expected": 6 if wide else 24, "missed": 0 if wide else 2}
        assert row["minute"] == BEGIN + 60 * (index // 2)
        assert {name: row[name] for name in expected} == expected
        assert row["delivered"] == row["expected"] - row["missed"]
    assert found[1]["p50"] == pytest.approx(0.1, rel=0.03)


def asked(directory: Path, **more: Any) -> argparse.Namespace:
    usual = {"spread": 5.0, "every": 1.0, "most_missed": 0.0, "latest": 5.0, "bootstrap": None}
    places = {"traces": str(directory / "traces"), "out": str(directory / "out")}
    return argparse.Namespace(**{**usual, **places, "durable": False, "once": True, **more})


@pytest.mark.sweep
def test_each_minute_is_told_when_it_is_complete(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for minute in range(MINUTES):
        write(tmp_path / "traces", minute)
    query = start(spark, asked(tmp_path))
    query.awaitTermination()
    check(minutes(tmp_path / "out"))
    said = capfd.readouterr().out
    assert "ALERT /a/b 2027-01-15 08:00: 2 of 24 receptions missed" in said
    page = (tmp_path / "out" / "watch.html").read_text()
    assert 'http-equiv="refresh"' in page
    assert page.count("<tr class=wrong>") == MINUTES - 1


@pytest.mark.sweep
def test_alerts_are_events_of_a_topic(spark: SparkSession, tmp_path: Path) -> None:
    for minute in range(MINUTES):
        write(tmp_path / "traces", minute)
    network = Network(tmp_path)
    try:
        telling = asked(tmp_path, bootstrap=network.bootstrap, durable=True)
        start(spark, telling).awaitTermination()
        teller = Teller(spark, telling)
        for batch in (tmp_path / "out").glob("minutes/*/batch=*"):  # as if each was run again
            number = batch.name.partition("=")[2]
            if wrong := alerts(minutes(tmp_path / "out", number), 0.0, 5.0):
                teller._publish(wrong, int(number))
        reader = spark.read.format("camcast").option("topic", ALERTS)
        rows = reader.option("bootstrap", network.bootstrap).load().collect()
    finally:
        network.close()
    told = sorted((json.loads(row.data) for row in rows), key=lambda one: one["minute"])
    assert [one["minute"] for one in told] == [BEGIN + 60 * n for n in range(MINUTES - 1)]
    assert {one["community"] for one in told} == {"/a/b"}
    assert {one["alert"] for one in told} == {"2 of 24 receptions missed"}


@pytest.mark.sweep
def test_a_stream_that_is_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pubsub.cli", "bench", "watch", str(tmp_path / "traces")]
    command += ["--out", str(tmp_path / "out"), "--spread", "5", "--every", "0.5"]
    command += ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    written = 0
    for wanted in (2, 2 * (MINUTES - 1)):
        with (tmp_path / "log").open("a") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            try:
                deadline = time.monotonic() + 120
                while len(minutes(tmp_path / "out")) < wanted and time.monotonic() < deadline:
                    assert running.poll() is None, (tmp_path / "log").read_text()
                    if written < MINUTES and (wanted > 2 or written < 3):
                        write(tmp_path / "traces", written)
                        written += 1
                    time.sleep(0.2)
            finally:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
    check(minutes(tmp_path / "out"))
