"""Traces: one row for everything that happens to events and tables on a node, for analysis elsewhere.

The columns and kinds are described in docs/traces.md. A path ending in `.parquet` is written as Parquet (this
needs pyarrow), any other as JSON lines. Rows reach the disk a few thousand at a time, and at `close`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from overlay.contact import PeerId
from overlay.errors import UsageError

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


class TraceError(UsageError):
    """The trace cannot be written where it was asked for."""


class _Sink(Protocol):
    def write(self, rows: list[tuple[Any, ...]]) -> None: ...
    def close(self) -> None: ...


class Trace:
    """The trace of one node; an observer of its `pubsub.camcast.process.Process`."""

    def __init__(self, path: str | Path, clock: Callable[[], float]) -> None:
        self.path = Path(path)
        self._clock = clock
        self._node = ""
        self._rows: list[tuple[Any, ...]] = []
        try:
            self._sink: _Sink = (
                _ParquetSink(self.path) if self.path.suffix == ".parquet" else _JsonSink(self.path)
            )
        except OSError as error:
            raise TraceError(f"no trace can be written to {self.path}: {error.strerror}") from None

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

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        self._sink.write(rows)

    def close(self) -> None:
        self.flush()
        self._sink.close()


class _JsonSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            values = {n: v for n, v in zip(COLUMNS, row, strict=True) if v is not None}
            self._file.write(json.dumps(values, ensure_ascii=False) + "\n")
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
                "a trace in Parquet needs pyarrow: install camcast[bench], or name a .jsonl file"
            ) from None
        text = pyarrow.string()
        types = {"time": pyarrow.float64(), "hops": pyarrow.int32()}
        self._schema = pyarrow.schema([(name, types.get(name, text)) for name in COLUMNS])
        self._table = pyarrow.Table
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema)

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
            self._writer.write_table(self._table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
