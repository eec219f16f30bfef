"""Rows as events: published as they are, safe when the task ends, and each archived once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from bench.spark.columns import SchemaError
from bench.spark.connection import OptionError
from bench.spark.sink import Written
from bench.spark.source import CamcastSource
from overlay.errors import CamcastError
from tests.bench.spark.archives import Network
from tests.bench.spark.test_source import batch, schema, source


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    running = Network(tmp_path_factory.mktemp("archive"))
    yield running
    running.close()


def write(network: Network, rows: list[dict[str, Any]], topic: str, **options: str) -> int:
    made = pa.RecordBatch.from_pylist(rows)
    given = {"topic": topic, "bootstrap": network.bootstrap, **options}
    sink = CamcastSource(given).writer(from_arrow_schema(made.schema), overwrite=False)
    message = sink.write(iter([made.slice(0, 1), made.slice(1)]))
    assert isinstance(message, Written)
    return message.events


def published(network: Network, topic: str) -> list[tuple[int, Any]]:
    rows = batch(source(network, topic="/copies").reader(schema()))  # type: ignore[arg-type]
    found = [row for row in rows if row["topic"] == topic]
    return [(row["number"], row["data"] and json.loads(row["data"])) for row in found]


def test_rows_are_published_as_maps_or_by_their_data(network: Network) -> None:
    assert write(network, [{"team": "Toro", "on": date(2026, 5, 4), "n": 1}] * 2, "/copies/a") == 2
    row = {"team": "Toro", "on": "2026-05-04", "n": 1}
    assert published(network, "/copies/a") == [(1, row), (2, row)]
    write(network, [{"data": '{"n":[1,null]}'}, {"data": "7"}], "/copies/b")
    assert published(network, "/copies/b") == [(1, {"n": [1, None]}), (2, 7)]
    write(network, [{"data": "not JSON"}], "/copies/c", data="text")
    assert published(network, "/copies/c") == [(1, "not JSON")]
    write(network, [{"data": msgpack.packb({"n": 1})}], "/copies/d", data="msgpack")
    assert published(network, "/copies/d") == [(1, {"n": 1})]
    write(network, [{"data": {"n": 1, "m": [2.5]}}], "/copies/e")
    assert published(network, "/copies/e") == [(1, {"n": 1, "m": [2.5]})]


def test_a_column_names_each_rows_topic(network: Network) -> None:
    rows = [{"topic": f"/copies/f/{n % 2}", "data": str(n)} for n in range(5)]
    write(network, [*rows, {"topic": None, "data": "9"}], "/copies/f")
    assert published(network, "/copies/f/0") == [(1, 0), (2, 2), (3, 4)]
    assert published(network, "/copies/f/1") == [(1, 1), (2, 3)]
    assert published(network, "/copies/f") == [(1, 9)]


def test_a_batch_that_is_written_again_under_its_name_is_archived_once(network: Network) -> None:
    rows = [{"data": str(n)} for n in range(100)]
    write(network, rows[:40], "/copies/g", batch="monday")  # it died here
    write(network, rows, "/copies/g", batch="monday")
    write(network, rows, "/copies/g", batch="monday")
    assert published(network, "/copies/g") == [(n + 1, n) for n in range(100)]
    write(network, rows[:1], "/copies/g")
    assert len(published(network, "/copies/g")) == 101


def test_rows_in_another_order_are_the_same_when_sorted(network: Network) -> None:
    rows = [{"data": str(n)} for n in range(20)]
    for again in (rows, rows[::-1]):
        write(network, again, "/copies/h", batch="sorted", order="content")
    assert sorted(n for _, n in published(network, "/copies/h")) == [*range(20)]


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        ([{"data": "{"}], {}, "text that is not JSON, '{': write data=text"),
        ([{"data": b"\xc1"}], {"data": "msgpack"}, "bytes that are not msgpack"),
        ([{"data": "1"}], {"data": "xml"}, 'data is "json", "text" or "msgpack"'),
        ([{"data": "1"}], {"order": "random"}, 'order is "arrival" or "content"'),
        ([{"topic": 1}], {}, "the column topic is of type string"),
        ([{"topic": "no topic", "data": "1"}], {}, "no topic"),
        ([{"data": "1"}], {"copies": "0"}, "copies is a number of more than 0"),
    ],
)
def test_rows_that_cannot_be_published_are_named(
    network: Network, rows: list[dict[str, Any]], options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(CamcastError, match=sentence) as raised:
        write(network, rows, "/copies/z", **options)
    assert isinstance(raised.value, SchemaError | OptionError | CamcastError)


def test_events_are_never_overwritten(network: Network) -> None:
    with pytest.raises(OptionError, match="events are only added"):
        source(network).writer(schema(), overwrite=True)


def test_nobody_keeps_the_topic(network: Network) -> None:
    with pytest.raises(CamcastError, match="no archive of /basket"):
        write(network, [{"data": "1"}], "/basket", timeout="2")
    assert write(network, [{"data": "1"}], "/basket", durable="false") == 1
