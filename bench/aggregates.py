"""From tidy rows to aggregates: one for each setting, community and metric; made by Spark, asked in memory.

A *setting* is an experiment without its network, repetitions and seed: what a point of a figure stands for.
An aggregate keeps the mean of each network (of simulated events, of each batch), from which every interval
and every comparison is computed (bench.intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.experiment import variant_of
from bench.intervals import (
    ERROR,
    Interval,
    look_at,
    mean_interval,
    share_interval,
    wilson,
)
from bench.results import PROPORTIONS, SHARES, WHOLE
from bench.store import ResultStore, StoreError, as_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTING = (
    *("suite", "figure", "tier", "protocol", "mode", "balance", "dissemination", "sure_links"),
    *("sizes", "c", "g", "p_sel", "a", "z", "loss", "failure", "failed", "publish_level"),
)
"""The columns that make a setting."""
REAL_NODES = ("replay", "emulate", "live")
"""Tiers on which the events of a network share its tables; elsewhere each has tables of its own."""
MOST_EXPERIMENTS = 50_000
"""Where a store has more, claims and report read only the built-in suites, which have a few hundred
experiments each: a driver holds no more than these."""
ROWS_OF_ONE = 30
"""About how many rows a small experiment has."""


def aggregate(rows: DataFrame) -> DataFrame:
    """The aggregates of all finished experiments among rows of results, by SQL alone."""
    keys = ", ".join(name for name in SETTING if name != "sizes")
    rows.createOrReplaceTempView("camcast_results")
    p50, p99 = (PERCENTILE.format(at=f"({share}D * (size(single) - 1))") for share in (0.5, 0.99))
    return rows.sparkSession.sql(AGGREGATE.format(keys=keys, p50=p50, p99=p99))


def reported(store: ResultStore) -> DataFrame:
    """The rows of results that claims and report are made of."""
    from bench.suites import BUILT_IN

    rows = store.read()
    with store.telling():
        if store.finished().count() > MOST_EXPERIMENTS:
            rows = rows.where(rows.suite.isin(sorted(BUILT_IN)))
    return rows


AGGREGATE = """
    SELECT {keys}, sizes, community, metric, unit, count,
        aggregate(sample, 0D, (kept, x) -> kept + x, kept -> kept / size(sample)) AS value,
        {p50} AS p50, {p99} AS p99, networks, sample
    FROM (
        SELECT *, CASE WHEN size(rows) = 1
            THEN array(rows[0].events * rows[0].value / rows[0].events)
            ELSE transform(networks, n -> aggregate(
                filter(rows, x -> x.network = n), named_struct('sum', 0D, 'events', 0D),
                (kept, x) -> named_struct(
                    'sum', kept.sum + x.events * x.value, 'events', kept.events + x.events),
                kept -> kept.sum / kept.events)) END AS sample
        FROM (
            SELECT *, array_sort(array_distinct(rows.network)) AS networks,
                array_sort(filter(rows, x -> x.event >= 0).value) AS single
            FROM (
                SELECT {keys}, concat_ws(',', sizes) AS sizes, community, metric, unit,
                    sum(events) AS count,
                    array_sort(collect_list(struct(network, event, value, events))) AS rows
                FROM (SELECT *, xxhash64({keys}, sizes, community, metric) AS place
                      FROM camcast_results WHERE error IS NULL AND value IS NOT NULL)
                GROUP BY place, {keys}, sizes, community, metric, unit)))"""
"""Rows are sorted: they come in whatever order the shuffle gave, and sums of floats must not depend on it.
Batches of simulated events are of about the same size; networks count alike whatever theirs. Where there are
many groups Spark sorts them: by `place` first, one number in place of twenty columns."""
PERCENTILE = """CASE WHEN size(single) > 0 THEN
    (ceil({at}) - {at}) * single[int({at})] + ({at} - int({at})) * single[int(ceil({at}))]
    + CASE WHEN {at} = int({at}) THEN single[int({at})] ELSE 0D END END"""
"""In SQL: of the sorted values `single`, by linear interpolation."""


def write_aggregates(store: ResultStore) -> str:
    """Aggregate the store and keep the outcome as Parquet beside it, for notebooks; return where."""
    from bench.spark.session import cut_for

    place = f"{store.place}/aggregates"
    with store.telling():
        cut_for(store.spark, ROWS_OF_ONE * store.finished().count())
        aggregate(store.read()).write.mode("overwrite").parquet(as_uri(place))
    return place


@dataclass(frozen=True)
class Aggregate:
    """One metric of one community in one setting."""

    suite: str
    figure: str
    tier: str
    protocol: str
    mode: str
    balance: bool
    dissemination: str
    sure_links: bool
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
    unit: str
    count: int
    """Events behind it."""
    value: float
    p50: float | None
    p99: float | None
    networks: tuple[int, ...]
    """The numbers of the networks (of simulated events, of the batches) behind it."""
    sample: tuple[float, ...]
    """The mean of each of them."""

    @property
    def is_of_networks(self) -> bool:
        return self.tier in REAL_NODES

    @cached_property
    def error(self) -> float:
        """What the interval may miss with: by looks where networks come in rounds, else 5 %."""
        return look_at(len(self.sample))[1] if self.is_of_networks else ERROR

    @cached_property
    def interval(self) -> Interval:
        """The mean of the networks of the last look, and the bounds that hold over all looks."""
        if self.tier == "model":
            return Interval(self.value, self.value, self.value)
        if not self.is_of_networks and self.metric in PROPORTIONS:
            return wilson(self.value * self.count, self.count)
        used = look_at(len(self.sample))[0] if self.is_of_networks else len(self.sample)
        sample = self.sample[:used]
        if self.metric in PROPORTIONS:
            return share_interval(sample, self.count * used / len(self.sample), self.error)
        most = 1.0 if self.metric in SHARES else math.inf
        return mean_interval(sample, self.error).within(0.0, most)

    @property
    def low(self) -> float:
        return self.interval.low

    @property
    def high(self) -> float:
        return self.interval.high

    def minus(self, other: Aggregate, among: int = 1) -> Interval:
        """This mean minus another's, by the networks of the same numbers.

        `among` comparisons share the error, where it is one of many.
        """
        if self.tier == "model" or other.tier == "model":
            return _shifted(self, other)
        theirs = dict(zip(other.networks, other.sample, strict=True))
        pairs = [
            (value, theirs[number])
            for number, value in zip(self.networks, self.sample, strict=True)
            if number in theirs
        ]
        if not pairs:
            return Interval(-math.inf, self.value - other.value, math.inf)
        used, error = look_at(len(pairs)) if self.is_of_networks else (len(pairs), ERROR)
        ours, others = zip(*pairs[:used], strict=True)
        # Pairs share their random numbers.
        found = mean_interval(np.subtract(ours, others), error / among)
        if found.low == found.high and self.metric in PROPORTIONS:
            # No event differed: neither may differ by more than either share may be off.
            room = max(self.high - self.low, other.high - other.low)
            found = Interval(found.value - room, found.value, found.value + room)
        return found

    def first(self, networks: int) -> Aggregate:
        """This aggregate as it was when only the first networks were there."""
        if not self.is_of_networks or len(self.sample) <= networks:
            return self
        kept = sorted(zip(self.networks, self.sample, strict=True))[:networks]
        numbers, sample = zip(*kept, strict=True)
        count = round(self.count * networks / len(self.sample))
        return replace(
            self, networks=numbers, sample=sample, count=count, value=float(np.mean(sample))
        )

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
    def variant(self) -> str:
        """published, improved or shipped (bench.experiment.VARIANTS)."""
        return variant_of(self.balance, self.dissemination, self.sure_links)

    @property
    def setting(self) -> tuple[object, ...]:
        """What was asked for and is measured here, whichever suite asked; p_sel, where given, replaces g."""
        g = None if self.p_sel is not None else self.g
        return (g, *_MEASURED(self))


_MEASURED = attrgetter(
    *(name for name in SETTING if name not in ("suite", "g")), "community", "metric"
)


def _shifted(ours: Aggregate, theirs: Aggregate) -> Interval:
    """A difference of which one side is a formula, and exact."""
    a, b = ours.interval, theirs.interval
    return Interval(a.low - b.high, a.value - b.value, a.high - b.low)


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
    """All aggregates of a store."""

    def __init__(self, rows: Iterable[Aggregate]) -> None:
        self._rows = sorted(rows, key=_order)
        best: dict[tuple[object, ...], Aggregate] = {}
        for row in self._rows:
            known = best.setdefault(row.setting, row)
            if (len(row.networks), row.count) > (len(known.networks), known.count):
                best[row.setting] = row
        self._best = list(best.values())
        self._indexed: dict[tuple[object, object], list[Aggregate]] = {}
        for row in self._best:
            for figure, metric in (
                (None, row.metric),
                (row.figure, None),
                (row.figure, row.metric),
            ):
                self._indexed.setdefault((figure, metric), []).append(row)

    @classmethod
    def of(cls, store: ResultStore, known: Aggregates | None = None) -> Aggregates:
        """The aggregates of every finished experiment in a store; `StoreError` where there is none.

        With `known`, those of an earlier look, only rows of real nodes are read again.
        """
        if store.is_empty:
            raise StoreError(f"no results in {store.place}: run a suite first (camcast bench run)")
        frame = aggregate(reported(store))
        with store.telling():
            if known is not None:
                frame = frame.where(frame.tier.isin(*REAL_NODES))
            found: list[dict[str, Any]] = frame.toArrow().to_pylist()
        for row in found:
            row["sizes"] = tuple(int(size) for size in row["sizes"].split(","))
            row["networks"], row["sample"] = tuple(row["networks"]), tuple(row["sample"])
        kept = [row for row in known._rows if not row.is_of_networks] if known is not None else []
        return cls([*kept, *(Aggregate(**row) for row in found)])

    def __len__(self) -> int:
        return len(self._rows)

    def only(self, wanted: Callable[[Aggregate], bool]) -> Aggregates:
        """Some of the aggregates."""
        return Aggregates(row for row in self._rows if wanted(row))

    def first(self, networks: int) -> Aggregates:
        """The aggregates as they were when each setting of real nodes had only the first networks."""
        return Aggregates(row.first(networks) for row in self._rows)

    @property
    def most_networks(self) -> int:
        """The largest number of networks of any setting of real nodes."""
        return max((len(row.networks) for row in self._rows if row.is_of_networks), default=0)

    def select(self, **wanted: object) -> list[Aggregate]:
        """The rows whose fields equal `wanted`, in a fixed order.

        Where several suites measured one setting, it is the row with the most networks and values behind it.
        """
        place = (wanted.get("figure"), wanted.get("metric"))
        rows = self._indexed.get(place, []) if any(place) else self._best
        # One call for all fields of a row: a report looks at a million rows. Two more make it a tuple.
        fields, values = attrgetter("tier", "mode", *wanted), tuple(wanted.values())
        return [row for row in rows if fields(row)[2:] == values]

    def suites(self) -> list[str]:
        return list(dict.fromkeys(row.suite for row in self._rows))


def _order(row: Aggregate) -> tuple[Any, ...]:
    return (
        *(row.suite, row.figure, row.tier, row.protocol, row.mode, row.balance, row.dissemination),
        *(row.sure_links, row.sizes, row.p_sel or 0.0, row.failed, row.publish_level),
        *(row.community, row.metric, row.c, row.g, row.a, row.z, row.loss, row.failure),
    )
