"""DataFrames as events: `df.write.format("camcast")` and `df.writeStream.format("camcast")`.

Each row becomes an event: its column `data`, or else a map of all its columns; a column `topic` says where it
is published, or else the option does. Rows are published durably unless `durable=false`: a task ends when its
events are safe at `copies` archives.

A batch of a stream is run again after a crash. So that no event is archived twice, the events of a task are
published in a run that is named after the query, the batch and the partition, and numbered by their place in
the partition: an archive that has an event of this run and number does not store it again, whichever node
sends it. This takes partitions that have the same rows in the same order when they are run again. Rows behind
a shuffle may come in another order: with `order=content` the rows of a partition are sorted before they are
numbered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bench.spark.columns import SchemaError
from bench.spark.connection import OptionError, Options, flag, number, the_loop
from overlay.wire import WireError
from pubsub import Node
from pubsub.data import pack_data, unpack_data
from pubsub.event import RUN_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's own names for what a task of a stream belongs to; the query's id stays over restarts."""

MOST_UNSAFE = 5_000
"""Events that are published before it is waited for those before them to be safe."""


@dataclass(frozen=True)
class Writing:
    """What is written and how; the same on the driver and on executors."""

    options: Options
    columns: tuple[str, ...]
    kind: str
    """What a `data` column of text or bytes holds: "json", "text" or "msgpack"."""
    durable: bool
    copies: int
    sorts: bool
    batch: str | None
    """What a batch write is called, by its caller."""

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, overwrite: bool) -> Writing:
        lowered = {name.lower(): value for name, value in options.items()}
        if overwrite:
            raise OptionError('events are only added: write with mode("append")')
        columns = tuple(schema.fieldNames())
        if "topic" in columns and not (lowered.get("topic") or lowered.get("path")):
            lowered["topic"] = "/"
        if "topic" in columns and schema["topic"].dataType.simpleString() != "string":
            raise SchemaError("the column topic is of type string: it names where a row goes")
        kind = lowered.get("data", "json")
        if kind not in ("json", "text", "msgpack"):
            raise OptionError(f'data is "json", "text" or "msgpack", not {kind!r}')
        order = lowered.get("order", "arrival")
        if order not in ("arrival", "content"):
            raise OptionError(f'order is "arrival" or "content", not {order!r}')
        return cls(
            Options.of(lowered),
            columns,
            kind,
            flag(lowered, "durable", True),
            int(number(lowered, "copies", 1)),
            order == "content",
            lowered.get("batch"),
        )


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task published."""

    events: int


class BatchSink(DataSourceArrowWriter):
    """Publishes a DataFrame. Tasks that are run again publish nothing twice; another call does, unless both
    have the same option `batch`."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._batch = writing.batch or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return publish(self._writing, iterator, self._batch)


class StreamSink(DataSourceStreamArrowWriter):
    """Publishes the batches of a stream, each row once, however often a batch is run."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context else None
        batch = context.getLocalProperty(BATCH) if context else None
        if query is None or batch is None:
            raise OptionError("Spark does not say which query and batch its rows belong to")
        return publish(self._writing, iterator, f"{query} {batch}")


def publish(writing: Writing, batches: Iterator[pa.RecordBatch], batch: str) -> Written:
    """Publish the rows of a task, in the run of this batch and partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context else 0
    rows: Iterator[tuple[str, Any]] = _rows(writing, batches)
    if writing.sorts:
        rows = iter(sorted(rows, key=lambda row: (row[0], pack_data(row[1]))))
    numbers: dict[str, int] = {}
    while page := list(islice(rows, MOST_UNSAFE)):
        the_loop().call(_publish(writing, page, f"{batch} {partition}", numbers))
    return Written(sum(numbers.values()))


async def _publish(
    writing: Writing, rows: list[tuple[str, Any]], name: str, numbers: dict[str, int]
) -> None:
    """Publish some rows, and return when they are safe. `numbers`: how many each topic has had so far."""
    node = await node_of(writing.options)
    by_topic: dict[str, list[Any]] = {}
    for topic, data in rows:
        by_topic.setdefault(topic, []).append(data)
    copies, within = writing.copies if writing.durable else None, writing.options.within
    for topic, data in by_topic.items():
        run = hashlib.blake2b(f"{name} {topic}".encode(), digest_size=RUN_BYTES).digest()
        first = numbers.get(topic, 0) + 1
        receipts = await node.publish_in_run(
            topic, run, first, data, durable=writing.durable, copies=copies, deadline=within
        )
        numbers[topic] = numbers.get(topic, 0) + len(data)
        if not writing.durable:
            async with asyncio.timeout(within):
                await receipts[-1].wait_settled()


_nodes: dict[Options, Node] = {}


async def node_of(options: Options) -> Node:
    """This process's node in the options' network, kept for the next task."""
    if options not in _nodes:
        node = Node.from_config(options.node_config())
        await node.__aenter__()
        _nodes[options] = node
    return _nodes[options]


def _rows(writing: Writing, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, Any]]:
    """Topic and data of each row."""
    for batch in batches:
        values = _values(writing, batch)
        if "topic" in writing.columns:
            topics = batch.column(batch.schema.get_field_index("topic")).to_pylist()
        else:
            topics = [writing.options.topic] * batch.num_rows
        for topic, value in zip(topics, values, strict=True):
            yield topic or writing.options.topic, value


def _values(writing: Writing, batch: pa.RecordBatch) -> Iterator[Any]:
    if "data" not in writing.columns:
        names = [name for name in batch.schema.names if name != "topic"]
        return map(_plain, batch.select(names).to_pylist())
    values = batch.column(batch.schema.get_field_index("data")).to_pylist()
    return (_value(writing.kind, value) for value in values)


def _value(kind: str, value: Any) -> Any:
    if isinstance(value, str) and kind == "json":
        try:
            return json.loads(value)
        except ValueError:
            raise SchemaError(
                f"the column data holds text that is not JSON, {value[:40]!r}: write data=text to publish "
                "text as it is"
            ) from None
    if isinstance(value, bytes) and kind == "msgpack":
        try:
            return unpack_data(value)
        except WireError:
            raise SchemaError("the column data holds bytes that are not msgpack") from None
    return _plain(value)


def _plain(value: Any) -> Any:
    """What msgpack knows, in place of dates and decimals."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    return str(value)
