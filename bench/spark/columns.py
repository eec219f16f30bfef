"""Pages of an archive as Arrow batches, and Arrow batches as data of events.

The events of a page are nearly always of one run and one topic, and then their heads differ in the number
alone: this is checked for the whole page at once, and no head is parsed but the first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
import numpy as np

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.protocol.archived_event import LENGTH_BYTES, read_event
from pubsub.archive.protocol.reading import EventPage
from pubsub.data import unpack_data
from pubsub.event import ID_PLACE, NUMBER_BYTES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS = {
    "topic": "string",
    "publisher": "string",
    "run": "string",
    "number": "bigint",
    "time": "timestamp",
}
"""The columns beside `data`, and their types."""

FEW = 20_000
"""Rows of a task up to which JSON is made in Python: machine code is loaded first."""

_NUMBER = slice(ID_PLACE.stop - NUMBER_BYTES, ID_PLACE.stop)
"""Where the number of an event is in its bytes."""


class SchemaError(UsageError):
    """A schema does not fit what events have; the text names the column."""


def default_schema(data: str) -> str:
    """The schema of events whose data are given as JSON, or as msgpack."""
    kinds = {**COLUMNS, "data": "binary" if data == "msgpack" else "string"}
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def check_schema(schema: StructType) -> None:
    """Raise `SchemaError` unless every column is one that events have; `data` may have any type."""
    for field in schema.fields:
        wanted = COLUMNS.get(field.name)
        if field.name != "data" and wanted is None:
            known = ", ".join((*COLUMNS, "data"))
            raise SchemaError(f"events have no column {field.name!r}; they have {known}")
        found = field.dataType.simpleString()
        if wanted is not None and found != wanted:
            raise SchemaError(f"the column {field.name} is of type {wanted}, not {found}")


class _Heads(NamedTuple):
    """What the heads of a page's events say, and where their data are."""

    topics: Sequence[str] | str
    publishers: Sequence[str] | str
    runs: Sequence[str] | str
    numbers: Any
    packed: Callable[[], list[bytes]]
    """The data of each event, packed."""
    joined: bytes | None = None
    """The same one behind the other, where that is at hand."""
    ends: Any = None
    """Where each ends in it."""

    def data(self) -> list[Any]:
        """The data of each event, None in place of what cannot be read."""
        if self.joined is not None:
            unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=len(self.joined) + 1)
            unpacker.feed(self.joined)
            try:
                values = list(unpacker)
            except (ValueError, msgpack.exceptions.UnpackException):
                values = []
            if len(values) == len(self.numbers):
                return values
        return [_unpack(packed) for packed in self.packed()]


class EventColumns:
    """Makes Arrow batches of pages."""

    def __init__(self, schema: StructType, data: str) -> None:
        """`data`: what a `data` column of text or bytes has, "json" or "msgpack"."""
        from pyspark.sql.pandas.types import to_arrow_schema

        self._names = schema.fieldNames()
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        kind = schema["data"].dataType.typeName() if "data" in self._names else ""
        self._raw = data == "msgpack" and kind == "binary"
        self._as_json = data == "json" and kind == "string"
        self._rows = 0

    def batch(self, page: EventPage, managed: str) -> pa.RecordBatch:
        """The events of a page; `SchemaError` when their data are not of the column's type."""
        import pyarrow as pa

        sizes = np.frombuffer(page.sizes, "<u4").astype(np.int64)
        heads = _alike(page.events, sizes, managed) or _each(page.events, sizes, managed)
        many = len(sizes)
        made: dict[str, Callable[[], Any]] = {
            "topic": lambda: _text(heads.topics, many),
            "publisher": lambda: _text(heads.publishers, many),
            "run": lambda: _text(heads.runs, many),
            "number": lambda: pa.array(heads.numbers, pa.int64()),
            "time": lambda: _times(page),
            "data": lambda: self._data(heads),
        }
        return pa.record_batch([made[name]() for name in self._names], schema=self._schema)

    def _data(self, heads: _Heads) -> Any:
        import pyarrow as pa

        kind = self._schema.field("data").type
        if self._raw:
            if heads.joined is not None:
                return _from_buffers(kind, heads.joined, heads.ends)
            return pa.array(heads.packed(), kind)
        self._rows += len(heads.numbers)
        if self._as_json and heads.joined is not None and self._rows > FEW:
            return _compiled_json(heads)
        values = heads.data()
        if self._as_json:
            return pa.array([_json_or_null(value) for value in values], kind)
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"the data of some events do not fit the column data of type {kind}: {error}"
            ) from None


def _alike(events: bytes, sizes: Any, managed: str) -> _Heads | None:
    """The heads of events that differ in their numbers alone; None for others."""
    block = read_event(events[: sizes[0]], managed).block
    head = int(sizes[0]) - LENGTH_BYTES - len(block.payloads()[0])
    ends = np.cumsum(sizes)
    starts = ends - sizes
    every = np.frombuffer(events, np.uint8)
    behind = (ends[:, None] - np.arange(1, LENGTH_BYTES + 1)).reshape(-1)
    if block.signature or sizes.min() <= head + LENGTH_BYTES or every[behind].any():
        return None  # there are signatures behind the data
    heads = every[starts[:, None] + np.arange(head)]
    numbers = np.ascontiguousarray(heads[:, _NUMBER]).view(">i8").reshape(-1).astype(np.int64)
    heads[:, _NUMBER] = 0
    if (heads != heads[0]).any():
        return None
    is_data = np.ones(len(every), bool)
    is_data[starts[:, None] + np.arange(head)] = False
    is_data[behind] = False
    joined = every[is_data].tobytes()
    data_ends = np.cumsum(sizes - head - LENGTH_BYTES)

    def packed() -> list[bytes]:
        return [joined[a:b] for a, b in pairwise([0, *data_ends.tolist()])]

    own = (block.topic, block.publisher.hex(), block.run.hex(), numbers)
    return _Heads(*own, packed, joined, data_ends)


def _from_buffers(kind: Any, joined: bytes, ends: Any) -> Any:
    """An Arrow array of texts or bytes that are one behind the other."""
    import pyarrow as pa

    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(kind, len(ends), buffers)


def _compiled_json(heads: _Heads) -> Any:
    """The data as JSON by machine code; what it leaves is done in Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bench.spark.transcode import to_json

    assert heads.joined is not None
    texts, ends, left = to_json(heads.joined, heads.ends)
    found = _from_buffers(pa.string(), texts, ends)
    if not left.any():
        return found
    bounds = np.concatenate([[0], heads.ends])
    rows = np.flatnonzero(left).tolist()
    packed = (heads.joined[bounds[row] : bounds[row + 1]] for row in rows)
    others = pa.array([_json_or_null(_unpack(one)) for one in packed], pa.string())
    return pc.replace_with_mask(found, pa.array(left), others)


def _each(events: bytes, sizes: Any, managed: str) -> _Heads:
    """The heads of any events, one by one."""
    topics, publishers, runs, packed = [], [], [], []
    numbers: list[int] = []
    at = 0
    for size in sizes.tolist():
        block = read_event(events[at : at + size], managed).block
        at += size
        topics.append(block.topic)
        publishers.append(block.publisher.hex())
        runs.append(block.run.hex())
        numbers.append(block.first)
        packed.append(block.payloads()[0])
    return _Heads(topics, publishers, runs, numbers, lambda: packed)


def _unpack(packed: bytes) -> Any:
    try:
        return unpack_data(packed)
    except WireError:
        return None


def _text(values: Sequence[str] | str, many: int) -> Any:
    import pyarrow as pa

    if isinstance(values, str):
        return pa.repeat(pa.scalar(values, pa.string()), many)
    return pa.array(values, pa.string())


def _times(page: EventPage) -> Any:
    import pyarrow as pa

    seconds = np.frombuffer(page.times, "<f8")
    return pa.array((seconds * 1e6).astype(np.int64), pa.int64()).cast(pa.timestamp("us", "UTC"))


def _json_or_null(value: Any) -> str | None:
    return None if value is None else _to_json(value)


def _bytes_as_text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


_to_json: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=_bytes_as_text
).encode
