"""Durable topics as DataFrames: `spark.read.format("camcast")` and `spark.readStream.format("camcast")`.

    events = (
        spark.readStream.format("camcast")
        .option("topic", "/soccer").option("bootstrap", "10.0.0.1:4000")
        .load()
    )

Rows come from the topic's archives, by publisher and number (`pubsub.archive.reader`). An offset has the
number up to which each stream of a publisher has been read. It means the same at every replica, so a query
goes on from its checkpoint at whichever replica answers. A batch that is run again gives the same rows in the
same order, publisher by publisher, as long as retention leaves them; where it has not, the query fails, or
goes on with `failOnDataLoss=false`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from bench.spark.columns import EventColumns, check_schema, default_schema
from bench.spark.connection import (
    PAGES_AHEAD,
    Archives,
    Finding,
    OptionError,
    Options,
    find_archives,
    flag,
    number,
    reader_of,
    the_loop,
)
from bench.spark.sink import BatchSink, StreamSink, Writing
from overlay.contact import ID_BYTES
from pubsub.archive.errors import ArchiveError
from pubsub.archive.protocol.frontier import begin_of
from pubsub.archive.protocol.reading import EventPage
from pubsub.topic import Topic

_log = logging.getLogger(__name__)

ROWS_A_PARTITION = 100_000
"""About how many rows a task reads: many short streams share a task, a long one is cut."""

Offset = dict[str, int]
"""By stream, `publisher/run` in hexadecimal: everything up to this number has been read."""


class DataLossError(ArchiveError):
    """Events that a query was to read next are gone."""


class CamcastSource(DataSource):
    """The format "camcast", a source and a sink."""

    @classmethod
    def name(cls) -> str:
        return "camcast"

    def schema(self) -> str:
        return default_schema(_data_option(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchSource(Reading.of(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamSource(Reading.of(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        return BatchSink(Writing.of(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        return StreamSink(Writing.of(self.options, schema, overwrite))


def _data_option(options: Mapping[str, str]) -> str:
    data = options.get("data", "json")
    if data not in ("json", "msgpack"):
        raise OptionError(f'data is "json" or "msgpack", not {data!r}')
    return data


@dataclass(frozen=True)
class Reading:
    """What is read and how; the same on the driver and on executors."""

    options: Options
    schema: StructType
    data: str
    fail_on_data_loss: bool
    starts_latest: bool
    rows_a_partition: int
    rows_a_trigger: int | None

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> Reading:
        check_schema(schema)
        lowered = {name.lower(): value for name, value in options.items()}
        begin = lowered.get("startingoffsets", "earliest")
        if begin not in ("earliest", "latest"):
            raise OptionError(f'startingOffsets is "earliest" or "latest", not {begin!r}')
        limit = "maxrowspertrigger" in lowered
        return cls(
            Options.of(options),
            schema,
            _data_option(lowered),
            flag(lowered, "failOnDataLoss", True),
            begin == "latest",
            int(number(lowered, "rowsPerPartition", ROWS_A_PARTITION)),
            max(int(number(lowered, "maxRowsPerTrigger", 1)), 1) if limit else None,
        )


@dataclass(frozen=True)
class EventRange:
    """Events of one stream, by their numbers."""

    stream: bytes
    first: int
    last: int
    goes_on: bool
    """The events before these have been read by the same query: what lacks among these is lost."""


class SourcePart(InputPartition):
    """What one task reads, and from whom."""

    def __init__(self, archives: Archives, ranges: list[EventRange]) -> None:
        self.archives, self.ranges = archives, ranges


@dataclass(frozen=True)
class Bounds:
    """Which events are asked for."""

    below: str
    since: float = 0.0
    until: float = math.inf


def read_part(reading: Reading, part: SourcePart, bounds: Bounds) -> Iterator[Any]:
    """The Arrow batches of a task."""
    columns = EventColumns(reading.schema, reading.data)
    reader = the_loop().call(reader_of(reading.options, part.archives))
    for one in part.ranges:
        pages = reader.pages(
            one.stream,
            one.first,
            one.last,
            below=bounds.below,
            since=bounds.since,
            until=bounds.until,
        )
        for page, lacking in the_loop().iterate(pages, PAGES_AHEAD):
            if lacking and one.goes_on:
                _lost(reading, one, page, lacking)
            if page.numbers:
                yield columns.batch(page, part.archives.managed)


def _lost(reading: Reading, one: EventRange, page: EventPage, lacking: int) -> None:
    told = (
        f"{lacking} events of publisher {one.stream[:ID_BYTES].hex()} in {reading.options.topic} up to "
        f"number {page.read_to} are gone from the archive before they were read"
    )
    if reading.fail_on_data_loss:
        raise DataLossError(f"{told}: keep events longer, or go on with failOnDataLoss=false")
    _log.warning("%s", told)


def plan(reading: Reading, archives: Archives, ranges: Sequence[EventRange]) -> list[SourcePart]:
    """The tasks of a query. Where a long range begins is asked first: a publisher's numbers go on over all of
    its runs, so most of the range may be empty."""
    rows = reading.rows_a_partition

    async def begin(one: EventRange) -> EventRange:
        if one.goes_on or one.last - one.first < rows:
            return one
        reader = await reader_of(reading.options, archives)
        first = await reader.first(one.stream, one.first, one.last)
        return replace(one, first=min(max(first, one.first), one.last))

    async def begins() -> list[EventRange]:
        return [await begin(one) for one in ranges]

    return cut(the_loop().call(begins()), archives, rows)


def cut(ranges: Sequence[EventRange], archives: Archives, rows: int) -> list[SourcePart]:
    """Ranges as tasks of about `rows` rows each; a publisher's events stay in order in their task."""
    parts: list[SourcePart] = []
    held: list[EventRange] = []
    size = 0
    for one in ranges:
        for first in range(one.first, one.last + 1, rows):
            last = min(first + rows - 1, one.last)
            held.append(EventRange(one.stream, first, last, one.goes_on))
            size += last - first + 1
            if size >= rows:
                parts.append(SourcePart(archives, held))
                held, size = [], 0
    if held:
        parts.append(SourcePart(archives, held))
    return parts


def stream_key(stream: bytes) -> str:
    return f"{stream[:ID_BYTES].hex()}/{stream[ID_BYTES:].hex()}"


def stream_of(key: str) -> bytes:
    return bytes.fromhex(key.replace("/", ""))


@dataclass(frozen=True)
class _WherePushed:
    """A method `pushFilters` that is called where `spark.sql.python.filterPushdown.enabled` is set. Without
    the setting Spark refuses a reader that has such a method, and tells so by `__func__`. Nothing is lost
    without the call: Spark looks at the filters itself."""

    push: Callable[[list[Filter]], list[Filter]]
    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self.push(filters)


class BatchSource(DataSourceReader):
    """All events that the archive has when the query is planned."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._bounds = Bounds(reading.options.topic)

    @property
    def pushFilters(self) -> Any:
        return _WherePushed(self._push)

    def _push(self, filters: list[Filter]) -> list[Filter]:
        """Bounds of time and one topic go to the archive. Spark looks at all filters again: a topic's archive
        gives the subtopics, too."""
        topic, since, until = self._bounds.below, self._bounds.since, self._bounds.until
        for one in filters:
            value = _moment(one)
            if isinstance(one, EqualTo) and one.attribute == ("topic",):
                if Topic.of(self._reading.options.topic).includes(Topic.of(one.value)):
                    topic = one.value
            elif value is not None:
                if isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo):
                    since = max(since, value - _ROUNDING)
                if isinstance(one, LessThan | LessThanOrEqual | EqualTo):
                    until = min(until, value + _ROUNDING)
        self._bounds = Bounds(topic, since, until)
        return filters

    def partitions(self) -> list[InputPartition]:
        reading = self._reading
        archives = find_archives(reading.options)
        marks = the_loop().call(_streams(reading.options, archives))
        ranges = [EventRange(name, 1, last, False) for name, last in sorted(marks.items()) if last]
        return [*plan(reading, archives, ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, SourcePart):  # Spark makes one of its own where there is none
            yield from read_part(self._reading, partition, self._bounds)


_ROUNDING = 2e-6
"""Spark's times are whole microseconds."""


def _moment(one: Filter) -> float | None:
    """The time that a filter compares `time` with, in seconds since 1970."""
    value = getattr(one, "value", None)
    if getattr(one, "attribute", None) == ("time",) and isinstance(value, datetime):
        return value.timestamp()
    return None


async def _streams(options: Options, archives: Archives) -> dict[bytes, int]:
    reader = await reader_of(options, archives)
    return await reader.streams()


class StreamSource(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Events as they are archived."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._finding: Finding | None = None
        self._archives: Archives | None = None
        self._target: Offset | None = None
        """Where the query ends, with `availableNow`."""

    def initialOffset(self) -> Offset:
        return self._newest() if self._reading.starts_latest else {}

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._reading.rows_a_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        newest = self._target if self._target is not None else self._newest()
        newest = {**start, **{key: max(n, start.get(key, 0)) for key, n in newest.items()}}
        floor = the_loop().call(_floor(self._reading.options, self._known_archives()))
        newest = {
            key: last
            for key, last in sorted(newest.items())
            if begin_of(stream_of(key))
            >= floor  # others are forgotten: nothing of them comes any more
        }
        if isinstance(limit, ReadMaxRows):
            return self._within(start, newest, limit.max_rows)
        return newest

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._newest()

    def reportLatestOffset(self) -> Offset:
        return self._newest()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        ranges = [
            EventRange(stream_of(key), start.get(key, 0) + 1, last, key in start)
            for key, last in sorted(end.items())
            if last > start.get(key, 0)
        ]
        if not ranges:
            return []
        return plan(self._reading, self._known_archives(), ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SourcePart)
        return read_part(self._reading, partition, Bounds(self._reading.options.topic))

    def stop(self) -> None:
        if self._finding is not None:
            the_loop().call(self._finding.close())

    def _known_archives(self) -> Archives:
        if self._archives is None:
            if self._finding is None:
                self._finding = Finding(self._reading.options)
            self._archives = the_loop().call(self._finding.archives())
        return self._archives

    def _newest(self) -> Offset:
        """The last number of each stream; archives that are silent are sought anew once."""
        for is_last in (False, True):
            archives = self._known_archives()
            try:
                marks = the_loop().call(_streams(self._reading.options, archives))
                return {stream_key(name): last for name, last in sorted(marks.items())}
            except ArchiveError:
                self._archives = None
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def _within(self, start: Offset, newest: Offset, rows: int) -> Offset:
        """As much of the newest offset as has at most `rows` rows, a fair share of each stream at first."""
        waiting = [key for key, last in newest.items() if last > start.get(key, 0)][:rows]
        begins = {key: self._begin(start, key, newest[key]) for key in waiting}
        end = dict(start)
        left = rows
        for share in (max(rows // max(len(waiting), 1), 1), rows):
            for key in waiting:
                at = end.get(key, 0) if key in end else begins[key]
                taken = min(share, left, newest[key] - at)
                if taken > 0:
                    end[key] = at + taken
                    left -= taken
        return {key: end[key] for key in sorted(end) if key in newest}

    def _begin(self, start: Offset, key: str, last: int) -> int:
        """The number before a stream's first event that is there."""
        if key in start:
            return start[key]
        options, archives = self._reading.options, self._known_archives()

        async def first() -> int:
            reader = await reader_of(options, archives)
            return await reader.first(stream_of(key), 1, last) - 1

        return the_loop().call(first())


async def _floor(options: Options, archives: Archives) -> int:
    return (await reader_of(options, archives)).floor
