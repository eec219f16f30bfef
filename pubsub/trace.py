"""Traces: one row for everything that happens to events and tables on a node, for analysis elsewhere.

The columns and kinds are described in docs/traces.md. A path ending in `.parquet` is written as Parquet (this
needs pyarrow), any other as JSON lines, compressed where it ends in `.gz`. Rows reach the disk a few thousand
at a time, and at `close`. A star in the name asks for a trace in parts: each part is a file of its own, of a
few seconds, and appears under its name when it is whole, so that others can read a running node's trace.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

from overlay.contact import PeerId
from overlay.context import Timer
from overlay.errors import UsageError, why

COLUMNS = ("time", "node", "kind", "topic", "event", "peer", "hops", "detail")
KINDS = (
    "join",
    "leave",
    "table",
    "publish",
    "send",
    "upward",
    "announce",
    "receive",
    "duplicate",
    "deliver",
    "drop",
)

ROWS_A_WRITE = 5000
ROWS_A_PART = 200_000
PART_SECONDS = 5.0
"""A part ends when it has this many rows, or is this old: a reader is about that far behind."""
STAR = "*"


class TraceError(UsageError):
    """The trace cannot be written where it was asked for."""


Later = Callable[[float, Callable[[], None]], Timer]


class _Sink(Protocol):
    def write(self, rows: list[tuple[Any, ...]]) -> None: ...
    def close(self) -> None: ...


class Trace:
    """The trace of one node; an observer of its `pubsub.camcast.process.Process`."""

    def __init__(
        self, path: str | Path, clock: Callable[[], float], later: Later | None = None
    ) -> None:
        """`later`: calls a function after some seconds; parts end without it only when rows come."""
        self.path = Path(path)
        self._later = later
        self._timer: Timer | None = None
        self._clock = clock
        self._node = ""
        self._rows: list[tuple[Any, ...]] = []
        self.in_parts = STAR in self.path.name
        if not self.path.name.endswith((".jsonl", ".jsonl.gz", ".parquet")):
            raise TraceError(
                f"a trace is a file .jsonl, .jsonl.gz or .parquet, not {self.path.name}"
            )
        try:
            self._sink: _Sink = _Parts(self.path, clock) if self.in_parts else _sink(self.path)
        except OSError as error:
            raise TraceError(f"no trace can be written to {self.path}: {why(error)}") from None

    def of_node(self, node: PeerId) -> None:
        """Whose trace this is; said before the first row."""
        self._node = node.hex()

    def record(
        self,
        kind: str,
        topic: str,
        *,
        event: bytes | None = None,
        peer: PeerId | None = None,
        hops: int | None = None,
        detail: str | None = None,
    ) -> None:
        self._rows.append(
            (
                self._clock(),
                self._node,
                kind,
                topic,
                None if event is None else event.hex(),
                None if peer is None else peer.hex(),
                hops,
                detail,
            )
        )
        if len(self._rows) >= ROWS_A_WRITE:
            self.flush()
        if self.in_parts and self._timer is None and self._later is not None:
            self._timer = self._later(PART_SECONDS, self._end_part)

    def _end_part(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Write what is held; of a trace in parts, end the part if it is old enough."""
        rows, self._rows = self._rows, []
        self._sink.write(rows)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._sink.close()


def _sink(path: Path) -> _Sink:
    """A file, by the ending of its name."""
    return _ParquetSink(path) if path.suffix == ".parquet" else _JsonSink(path)


class _Parts:
    """Files one after the other. In place of the star, the name of a part has the time at which the trace
    began, twelve random digits, so that nodes may share a directory, and the part's number."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        if not path.parent.is_dir():
            raise NotADirectoryError(0, f"there is no directory {path.parent}")
        self._path = path
        self._clock = clock
        self._name = f"{int(clock())}-{os.urandom(6).hex()}"
        self._parts = 0
        self._rows = 0
        self._begin = 0.0
        self._sink: _Sink | None = None

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            if self._sink is None:
                self._begin, self._rows = self._clock(), 0
                self._sink = _sink(self._hidden)
            self._sink.write(rows)
            self._rows += len(rows)
        if self._rows >= ROWS_A_PART or self._clock() - self._begin >= PART_SECONDS:
            self.close()

    @property
    def _part(self) -> Path:
        own = f"{self._name}-{self._parts:06d}"
        return self._path.with_name(self._path.name.replace(STAR, own))

    @property
    def _hidden(self) -> Path:
        """Where a part is until it is whole: Spark reads no file whose name begins with a dot."""
        return self._part.with_name(f".{self._part.name}")

    def close(self) -> None:
        """End the part that is under way."""
        if self._sink is not None:
            self._sink.close()
            self._hidden.rename(self._part)
            self._sink = None
            self._parts += 1


_as_json = json.JSONEncoder(ensure_ascii=False).encode


class _JsonSink:
    def __init__(self, path: Path) -> None:
        how = gzip.open if path.suffix == ".gz" else open
        self._file: IO[str] = how(path, "wt", encoding="utf-8")

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            values = {n: v for n, v in zip(COLUMNS, row, strict=True) if v is not None}
            self._file.write(_as_json(values) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _ParquetSink:
    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise TraceError(
                "a trace in Parquet needs pyarrow: pip install 'camcast[bench]', or name a .jsonl file"
            ) from None
        text = pyarrow.string()
        types = {"time": pyarrow.float64(), "hops": pyarrow.int32()}
        self._schema = pyarrow.schema([(name, types.get(name, text)) for name in COLUMNS])
        self._table = pyarrow.Table
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
            self._writer.write_table(self._table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
