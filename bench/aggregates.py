"""The aggregates, in memory, to be asked by claims and figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.aggregate import WHOLE
from bench.intervals import Interval
from overlay.errors import CamcastError


class AggregatesError(CamcastError):
    """There are no aggregates, or not the file that holds them."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One metric of one community in one setting (see `bench.aggregate`)."""

    suite: str
    figure: str
    tier: str
    protocol: str
    mode: str
    sizes: tuple[int, ...]
    c: float
    g: float
    p_sel: float | None
    a: float
    z: int
    loss: float
    failure: str
    failed: float
    publish_level: int
    community: int
    metric: str
    count: int
    networks: int
    """Independent networks behind it; as many as values where each repetition has tables of its own."""
    low: float
    value: float
    high: float
    p50: float
    p99: float

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.value, self.high)

    @property
    def size(self) -> int:
        """Processes of the community, or of all communities."""
        return sum(self.sizes) if self.community == WHOLE else self.sizes[self.community]

    @property
    def is_root(self) -> bool:
        return self.community == len(self.sizes) - 1

    @property
    def place(self) -> str:
        """The community's name."""
        return community_name(self.community, len(self.sizes))

    @property
    def setting(self) -> tuple[object, ...]:
        """What was asked for and is measured here, whichever suite asked; p_sel, where given, replaces g."""
        g = None if self.p_sel is not None else self.g
        return (
            *(self.figure, self.tier, self.protocol, self.mode, self.sizes, self.c, g, self.p_sel),
            *(self.a, self.z, self.loss, self.failure, self.failed, self.publish_level),
            *(self.community, self.metric),
        )


def community_name(level: int, levels: int) -> str:
    """What a community is called everywhere: by the paper's topics where there are three, a the root."""
    if level == WHOLE:
        return "all communities"
    names = ("g (bottom)", "d (middle)", "a (root)")
    if levels == len(names):
        return names[level]
    ends = {0: " (bottom)", levels - 1: " (root)"}
    return f"level {level}{ends.get(level, '')}"


class Aggregates:
    """All aggregates of an output directory."""

    def __init__(self, rows: Iterable[Aggregate]) -> None:
        self._rows = sorted(rows, key=_order)
        best: dict[tuple[object, ...], Aggregate] = {}
        for row in self._rows:
            known = best.setdefault(row.setting, row)
            if (row.networks, row.count) > (known.networks, known.count):
                best[row.setting] = row
        self._best = list(best.values())
        self._by_metric: dict[object, list[Aggregate]] = {}
        for row in self._best:
            self._by_metric.setdefault(row.metric, []).append(row)

    @classmethod
    def read(cls, directory: Path) -> Aggregates:
        """What `write_aggregates` left below an output directory."""
        import pyarrow.parquet as parquet

        path = directory / "aggregates"
        if not path.is_dir():
            raise AggregatesError(
                f"no aggregates in {directory}: run camcast bench aggregate first"
            )
        try:
            found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        except (OSError, ValueError) as error:
            raise AggregatesError(f"damaged aggregates in {path}: {error}") from None
        for row in found:
            row["sizes"] = tuple(int(size) for size in row["sizes"].split(","))
        return cls(Aggregate(**row) for row in found)

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, **wanted: object) -> list[Aggregate]:
        """The rows whose fields equal `wanted`, in a fixed order.

        Where several suites measured one setting, it is the row with the most networks and values behind it.
        """
        rows = self._by_metric.get(wanted["metric"], []) if "metric" in wanted else self._best
        return [row for row in rows if all(getattr(row, name) == wanted[name] for name in wanted)]

    def suites(self) -> list[str]:
        return list(dict.fromkeys(row.suite for row in self._rows))


def _order(row: Aggregate) -> tuple[Any, ...]:
    return (
        *(row.suite, row.figure, row.tier, row.protocol, row.mode, row.sizes, row.p_sel or 0.0),
        *(row.failed, row.publish_level, row.community, row.metric),
        *(row.c, row.g, row.a, row.z, row.loss, row.failure),
    )
