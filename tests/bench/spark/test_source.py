"""Durable topics as DataFrames: what the source promises, mostly without Spark around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bench.spark.columns import SchemaError
from bench.spark.connection import OptionError
from bench.spark.source import BatchSource, CamcastSource, DataLossError, StreamSource
from overlay.errors import CamcastError
from pubsub.archive.errors import ArchiveError, NoArchiveFound
from pubsub.archive.store import Retention
from tests.bench.spark.archives import Network

ALL = ReadAllAvailable()


def schema(data: Any = None) -> StructType:
    kinds = {
        "topic": StringType(),
        "publisher": StringType(),
        "run": StringType(),
        "number": LongType(),
        "time": TimestampType(),
        "data": data or StringType(),
    }
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    running = Network(tmp_path, retention=Retention(max_count=1000))
    yield running
    running.close()


def source(network: Network | str, **options: str) -> CamcastSource:
    bootstrap = network if isinstance(network, str) else network.bootstrap
    return CamcastSource({"topic": "/soccer", "bootstrap": bootstrap, **options})


def rows_of(reader: BatchSource | StreamSource, parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def batch(reader: BatchSource) -> list[dict[str, Any]]:
    return rows_of(reader, reader.partitions())


def test_a_batch_has_every_event_of_every_publisher_in_order(network: Network) -> None:
    anna = network.publish({"n": n} for n in range(30))
    bert = network.publish([None, 1, "text", b"\0\xff", [1, {"a": None}]], "/soccer/italy", "bert")
    rows = batch(source(network).reader(schema()))  # type: ignore[arg-type]
    by = {one: [row for row in rows if row["publisher"] == one] for one in (anna, bert)}
    assert [json.loads(row["data"]) for row in by[anna]] == [{"n": n} for n in range(30)]
    assert [row["number"] for row in by[anna]] == [*range(1, 31)]
    assert {row["topic"] for row in by[bert]} == {"/soccer/italy"}
    assert [row["data"] for row in by[bert]] == [None, "1", '"text"', '"AP8="', '[1,{"a":null}]']
    assert all(abs((datetime.now(UTC) - row["time"]).total_seconds()) < 60 for row in rows)
    assert len(rows) == 35


def test_topics_that_alternate_are_read_one_by_one(network: Network) -> None:
    for n in range(6):
        network.publish([n], f"/soccer/{'italy' if n % 2 else 'spain'}")
    rows = batch(source(network).reader(schema()))  # type: ignore[arg-type]
    assert [(row["topic"][8:], row["number"], row["data"]) for row in rows] == [
        ("spain", 1, "0"),
        ("italy", 1, "1"),
        ("spain", 2, "2"),
        ("italy", 2, "3"),
        ("spain", 3, "4"),
        ("italy", 3, "5"),
    ]


def test_data_as_msgpack_and_by_a_schema(network: Network) -> None:
    network.publish([{"team": "Toro", "goals": 2}])
    raw = batch(source(network, data="msgpack").reader(schema(BinaryType())))  # type: ignore[arg-type]
    assert msgpack.unpackb(raw[0]["data"]) == {"team": "Toro", "goals": 2}
    told = StructType([StructField("team", StringType()), StructField("goals", LongType())])
    only = StructType([StructField("data", told)])
    assert batch(source(network).reader(only)) == [{"data": {"team": "Toro", "goals": 2}}]  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="do not fit the column data of type int64"):
        batch(source(network).reader(schema(LongType())))  # type: ignore[arg-type]


def test_filters_of_topic_and_time_go_to_the_archive(network: Network) -> None:
    network.publish(["a"])
    network.publish(["b"], "/soccer/italy")
    _, second = (row["time"] for row in batch(source(network).reader(schema())))  # type: ignore[arg-type]
    for filters, expected in (
        ([EqualTo(("topic",), "/soccer/italy")], ['"b"']),
        ([EqualTo(("topic",), "/basket")], ['"a"', '"b"']),  # Spark drops them itself
        ([LessThan(("time",), second.replace(microsecond=0))], None),
        ([GreaterThan(("time",), datetime(2100, 1, 1, tzinfo=UTC))], []),
        ([EqualTo(("number",), 7)], ['"a"', '"b"']),
    ):
        reader = source(network).reader(schema())
        assert reader.pushFilters(filters) == filters
        found = [row["data"] for row in batch(reader)]  # type: ignore[arg-type]
        assert expected is None or found == expected


def test_a_stream_goes_on_from_its_offset_and_keeps_to_its_limit(network: Network) -> None:
    network.publish(range(10))
    network.publish(range(100, 103), who="bert")
    reader = source(network, maxRowsPerTrigger="4").streamReader(schema())
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    at = reader.initialOffset()
    seen: list[list[str]] = []
    while (end := reader.latestOffset(at, ReadMaxRows(4))) != at:
        rows = rows_of(reader, reader.partitions(at, end))  # type: ignore[arg-type]
        assert rows == rows_of(reader, reader.partitions(at, end))  # type: ignore[arg-type]
        seen.append([row["data"] for row in rows])
        at = json.loads(json.dumps(end))
    assert [len(one) for one in seen] == [4, 4, 4, 1]
    assert sorted(row for one in seen for row in one) == sorted(
        map(str, [*range(10), *range(100, 103)])
    )
    assert reader.partitions(at, at) == []
    network.publish([11])
    another = source(network).streamReader(schema())
    end = another.latestOffset(at, ALL)
    assert [row["data"] for row in rows_of(another, another.partitions(at, end))] == ["11"]  # type: ignore[arg-type]
    assert source(network, startingOffsets="latest").streamReader(schema()).initialOffset() == end
    for one in (reader, another):
        one.stop()


def test_available_now_ends_with_what_was_there(network: Network) -> None:
    network.publish(range(5))
    reader = source(network).streamReader(schema())
    assert isinstance(reader, StreamSource)
    reader.prepareForTriggerAvailableNow()
    network.publish(range(5))
    end = reader.latestOffset({}, ALL)
    assert len(rows_of(reader, reader.partitions({}, end))) == 5
    assert reader.latestOffset(end, ALL) == end
    reader.stop()


def test_events_that_retention_overtook_are_an_error_unless_they_may_be_lost(
    network: Network,
) -> None:
    network.publish(range(100))
    reader = source(network).streamReader(schema())
    start = reader.latestOffset({}, ReadMaxRows(10))
    network.publish(range(2000))
    network.forget_old()
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLossError, match=r"1090 events of publisher .* failOnDataLoss=false"):
        rows_of(reader, reader.partitions(start, end))  # type: ignore[arg-type]
    lenient = source(network, failOnDataLoss="false").streamReader(schema())
    assert len(rows_of(lenient, lenient.partitions(start, end))) == 1000  # type: ignore[arg-type]
    # Who begins now begins with what is there, which nobody was promised more of.
    assert len(rows_of(reader, reader.partitions({}, end))) == 1000  # type: ignore[arg-type]
    for one in (reader, lenient):
        one.stop()


def test_long_streams_are_cut_and_short_ones_share_a_task(network: Network) -> None:
    network.publish(range(50))
    for who in ("bert", "carl", "dora"):
        network.publish(range(3), who=who)
    reader = source(network, rowsPerPartition="20").reader(schema())
    parts = reader.partitions()
    assert 3 <= len(parts) <= 4
    assert len(rows_of(reader, parts)) == 59  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": ""}, "no topic is named"),
        ({"topic": "soccer"}, "soccer"),
        ({"bootstrap": ""}, "no node of the network is named"),
        ({"bootstrap": "nowhere"}, "nowhere"),
        ({"data": "xml"}, 'data is "json" or "msgpack"'),
        ({"startingOffsets": "now"}, "startingOffsets is"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"maxRowsPerTrigger": "-1"}, "maxRowsPerTrigger is a number"),
        ({"timeout": "soon"}, "timeout is a number"),
        ({"keyFile": "/no/such/file"}, "/no/such/file cannot be read"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(CamcastError, match=sentence):
        source("127.0.0.1:9", **options).reader(schema())


def test_a_schema_that_events_do_not_have_is_named() -> None:
    for field, sentence in (
        (StructField("goals", LongType()), "no column 'goals'"),
        (StructField("number", StringType()), "the column number is of type bigint, not string"),
    ):
        with pytest.raises(SchemaError, match=sentence):
            source("127.0.0.1:9").reader(StructType([field]))


def test_an_archive_that_does_not_answer_is_named(network: Network) -> None:
    with pytest.raises(NoArchiveFound, match="no archive of /basket"):
        batch(source(network, topic="/basket", timeout="1").reader(schema()))  # type: ignore[arg-type]
    reader = source(network, timeout="1").reader(schema())
    network.publish([1])
    parts = reader.partitions()
    network.call(network.archive.close())
    with pytest.raises(ArchiveError, match="no archive of /soccer has answered within 1 s"):
        rows_of(reader, parts)  # type: ignore[arg-type]
    with pytest.raises(CamcastError, match="answered within 1 s"):
        batch(source("127.0.0.1:9", timeout="1").reader(schema()))  # type: ignore[arg-type]


def test_options_are_read_in_any_case() -> None:
    with pytest.raises(OptionError, match="failOnDataLoss"):
        source("127.0.0.1:9", FAILONDATALOSS="x").reader(schema())
