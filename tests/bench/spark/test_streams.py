"""The format "camcast" within Spark: batch and stream, both ways, and through kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.spark.source import CamcastSource
from overlay.identity import Identity
from pubsub.archive.protocol.archived_event import pack_event
from pubsub.archive.protocol.frontier import new_stream
from pubsub.archive.store.changes import StoredEvent
from pubsub.archive.store.sqlite import SqliteStore
from pubsub.data import pack_data
from pubsub.event import Head, make_block
from tests.bench.spark.archives import Network
from tests.bench.spark.test_source import batch, schema, source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    running = Network(tmp_path)
    yield running
    running.close()


def load(spark: SparkSession, network: Network, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("camcast").option("topic", topic)
    return reader.option("bootstrap", network.bootstrap).options(**options).load()


def test_a_batch_is_filtered_by_the_archive_and_has_the_types_that_were_asked_for(
    spark: SparkSession, network: Network
) -> None:
    spark.dataSource.register(CamcastSource)
    network.publish({"n": n} for n in range(20))
    network.publish([{"n": 20}], "/soccer/italy", "bert")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        events = load(spark, network, "/soccer").where("topic = '/soccer/italy'")
        assert [row.data for row in events.collect()] == ['{"n":20}']
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    typed = spark.read.schema("number bigint, data struct<n:bigint>").format("camcast")
    rows = typed.option("topic", "/soccer").option("bootstrap", network.bootstrap).load()
    assert rows.selectExpr("sum(data.n)").first() == (210,)


@pytest.mark.sweep
def test_a_stream_copies_a_topic_once_though_its_last_batch_is_run_again(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    spark.dataSource.register(CamcastSource)
    network.publish({"n": n} for n in range(21))

    def copy() -> None:
        stream = spark.readStream.format("camcast").option("topic", "/soccer")
        events = stream.option("bootstrap", network.bootstrap).load()
        writing = events.select("data").writeStream.format("camcast").option("topic", "/copies")
        writing = writing.option("bootstrap", network.bootstrap)
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()

    copy()
    network.publish([{"n": 21}])
    copy()
    # The driver was killed before it noted the last batch: the batch is run again, and nothing comes twice.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    copy()
    copied = load(spark, network, "/copies").selectExpr("get_json_object(data, '$.n') as n")
    assert sorted(int(row.n) for row in copied.collect()) == [*range(22)]


@pytest.mark.sweep
def test_the_example_of_the_docs_counts_goals_by_country(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The windows of the goals have ended, but for the last goal's, which is of now."""
    spark.dataSource.register(CamcastSource)
    now = time.time()
    teams = ["Toro", "Toro", "Juve", "Ajax", "Ajax"]
    keep_goals(tmp_path / "events.db", [(now - 3600, team) for team in teams] + [(now, "Toro")])
    countries = [("Toro", "Italy"), ("Juve", "Italy"), ("Ajax", "Netherlands")]
    spark.createDataFrame(countries, "team string, country string").write.parquet(
        str(tmp_path / "teams")
    )
    network = Network(tmp_path)
    text = (ROOT / "docs" / "spark.md").read_text()
    example = text[text.index("## Example") : text.index("## When something is wrong")]
    code = "\n".join(part.partition("```")[0] for part in example.split("```py\n")[1:])
    for written, here in (
        ("10.0.0.1:4000", network.bootstrap),
        ("s3a://league", str(tmp_path)),
        (".start()", ".trigger(availableNow=True).start()"),  # or it would go on for ever
    ):
        assert written in code
        code = code.replace(written, here)
    try:
        exec(code, {"spark": spark})
        told = [json.loads(row.data) for row in load(spark, network, "/soccer/tables").collect()]
    finally:
        network.close()
    assert {row["country"]: row["count"] for row in told} == {"Italy": 3, "Netherlands": 2}
    assert len(told) == 2


def keep_goals(path: Path, goals: list[tuple[float, str]]) -> None:
    """A store with goals that were archived at some times."""
    publisher = Identity.create().id
    stream = new_stream(publisher, int(goals[0][0]), 7)
    changes = []
    for number, (moment, team) in enumerate(goals, 1):
        data = pack_data({"team": team, "player": "Anna"})
        block = make_block(publisher + b"goalsrun", number, Head("/soccer/goals"), [data])
        body = pack_event(block.encoded)
        changes.append(StoredEvent("/soccer", number, block.id, stream, number, moment, body))
    store = SqliteStore(path)
    store.write(changes)
    store.sync()
    store.close()


class Copier:
    """The process of `copying_stream`, with all that it starts in a group of its own."""

    def __init__(self, directory: Path, network: Network) -> None:
        command = [sys.executable, "-m", "tests.bench.spark.copying_stream"]
        self.process = subprocess.Popen(
            [*command, str(directory), network.bootstrap],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_batches(self, checkpoint: Path, above: int) -> int:
        """Wait until a batch beyond this one was begun, or the program has ended; the last one begun."""
        while self.process.poll() is None:
            begun = [int(one.name) for one in checkpoint.glob("offsets/[0-9]*")]
            if max(begun, default=-1) > above:
                return max(begun)
            time.sleep(0.01)
        return above

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # the program may have ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_a_worker(self, chance: random.Random) -> None:
        """Kill one of the Python processes that run tasks; Spark runs its task again."""
        listed = subprocess.run(
            ["ps", "-s", str(self.process.pid), "-o", "pid=,ppid=,args="],
            capture_output=True,
            text=True,
        ).stdout
        found = [line.split(None, 2) for line in listed.splitlines()]
        daemons = {pid for pid, _, args in found if "pyspark.daemon" in args}
        workers = [int(pid) for pid, parent, _ in found if parent in daemons]
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [0])
def test_every_event_is_copied_once_though_driver_and_workers_are_killed(
    seed: int, network: Network, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    for who in ("anna", "bert"):
        network.publish(range(400), who=who)
    begun = -1
    for _ in range(2):
        copier = Copier(tmp_path, network)
        for _ in range(chance.randrange(1, 4)):
            begun = copier.wait_for_batches(tmp_path / "checkpoint", begun)
            time.sleep(chance.random())
            copier.kill_a_worker(chance)
        copier.kill()
    assert Copier(tmp_path, network).process.wait(300) == 0
    original = batch(source(network).reader(schema()))  # type: ignore[arg-type]
    copies = batch(source(network, topic="/copies").reader(schema()))  # type: ignore[arg-type]
    wanted = Counter(f'{{"origin":"{r["publisher"]} {r["run"]} {r["number"]}"}}' for r in original)
    assert Counter(row["data"] for row in copies) == wanted
    assert len(copies) == 800
