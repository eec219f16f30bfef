"""From result rows to aggregates: a row for each setting, community and metric, with its interval.

A *setting* is an experiment without its repetition and seed: what a point of a figure stands for.
Proportions get Wilson's interval, means the bootstrap's, formulas none; the percentiles are exact. The
events of an experiment with real nodes share one network, and their intervals go by networks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.experiment import Experiment
from bench.intervals import Groups, Interval, Values, bootstrap_means, grouped_proportion
from bench.store import ResultStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SETTING = (
    "suite",
    "figure",
    "tier",
    "protocol",
    "mode",
    "sizes",
    "c",
    "g",
    "p_sel",
    "a",
    "z",
    "loss",
    "failure",
    "failed",
    "publish_level",
)
"""The columns that make a setting."""

DERIVED = ("reception", "reliability", "efficiency", "climbing", "complete_rounds")
PROPORTIONS = ("reliability", "climbing")
SHARES = (*PROPORTIONS, "reception", "efficiency")
METRICS = (
    *DERIVED,
    "messages_inside",
    "messages_upward",
    "parasites",
    "rounds",
    "seconds",
    "table_entries",
    "largest_table",
    "table_deviation",
    "upward_peak",
)
"""What is aggregated, per community.

reception: share of the live processes reached. reliability: share of repetitions that reached them all.
efficiency: first receptions over all receptions. climbing: share of repetitions in which a message was sent
upward. complete_rounds: rounds of the repetitions that reached everyone. The others are means of the columns
of the same name.
"""

METRIC_EXPRESSIONS = (
    "community",
    "experiment_id",
    "repetition",
    "reached / nullif(alive, 0) AS reception",
    "everyone AS reliability",
    "useful / nullif(useful + duplicates, 0) AS efficiency",
    "double(messages_upward > 0) AS climbing",
    "CASE WHEN everyone = 1 THEN rounds END AS complete_rounds",
    *[f"double({name}) AS {name}" for name in METRICS if name not in DERIVED],
)
"""In SQL, the metrics of a row of results, and what puts rows in order."""

COLUMNS = (
    *SETTING,
    "experiment_id",
    "repetition",
    "community",
    "processes",
    "alive",
    "reached",
    "everyone",
    "useful",
    "duplicates",
    *(name for name in METRICS if name not in DERIVED),
)
"""The columns of the results that the aggregates are made from."""

OF_EVENTS = ("climbing", "complete_rounds")
"""What only single events have, and a formula's expected numbers do not."""

ONE_NETWORK = ("emulate", "live")
"""Tiers on which the events of an experiment share one network; elsewhere each has tables of its own."""

WHOLE = -1
"""Stands in `community` for all communities together: sums, the last round, everyone everywhere."""

_TEXT = ("topic", "suite", "figure", "tier", "protocol", "mode", "sizes", "failure", "metric")
_WHOLE_NUMBERS = ("z", "publish_level", "community", "count", "networks")
SUMMARY = ("community", "metric", "count", "networks", "low", "value", "high", "p50", "p99")
"""The columns of an aggregate, after those of its setting (`sizes` as text, its numbers between commas)."""


def aggregate_schema(setting: Sequence[str] = SETTING) -> pa.Schema:
    """The Arrow schema of the aggregates of what `setting` tells apart."""
    import pyarrow as pa

    kinds = dict.fromkeys(_TEXT, pa.string()) | dict.fromkeys(_WHOLE_NUMBERS, pa.int64())
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in (*setting, *SUMMARY)])


def aggregate(spark: SparkSession, store: ResultStore) -> DataFrame:
    """The aggregates of every finished experiment in the store."""
    from pyspark.sql.pandas.types import from_arrow_schema

    results = store.read(spark).where("error IS NULL").select(*COLUMNS)
    return (
        _metrics(results.unionByName(_whole(results)))
        .groupBy(*SETTING)
        .applyInArrow(_summarise_setting, from_arrow_schema(aggregate_schema()))
    )


def _whole(results: DataFrame) -> DataFrame:
    """A row for each repetition, over all of its communities; null where a community's value is."""
    from pyspark.sql import functions as f

    own = (*SETTING, "experiment_id", "repetition")
    summed = ("processes", "reached", "useful", "duplicates", "parasites")
    sums = [f.sum(name).alias(name) for name in summed]
    # Reception is of those who want the event: communities below its topic do not count.
    sums.append(f.sum(f.when(f.col("reached").isNotNull(), f.col("alive"))).alias("alive"))
    # The root sends nothing upward and may leave that null; any other null would be a hole in the sum.
    sums += [f.sum(name).alias(name) for name in ("messages_inside", "messages_upward")]
    largest = ("rounds", "seconds", "largest_table", "table_deviation", "upward_peak")
    last = [f.max(name).alias(name) for name in largest]
    keeping = f.when(f.col("table_entries").isNotNull(), f.col("processes"))
    entries = f.col("table_entries") * f.col("processes")
    mean = (f.sum(entries) / f.sum(keeping)).alias("table_entries")
    # Of zeros and ones the least is whether all are 1; of probabilities it is not that of all together.
    everywhere = f.when(f.col("tier") != "model", f.min("everyone")).alias("everyone")
    found = results.groupBy(*own).agg(*sums, *last, mean, everywhere)
    return found.withColumn("community", f.lit(WHOLE).cast("bigint"))


def _metrics(results: DataFrame) -> DataFrame:
    """The metrics of each row; null where a tier does not know."""
    return results.selectExpr(
        *[name for name in SETTING if name != "sizes"],
        "concat_ws(',', sizes) AS sizes",
        *METRIC_EXPRESSIONS,
    )


def _summarise_setting(group: pa.Table) -> pa.Table:
    """One argument, at which Spark looks; for formulas also what they give for all communities together."""
    import pyarrow as pa

    from bench.tiers.model import everyone_everywhere

    found = summarise(group)
    setting: dict[str, Any] = found.select(SETTING).slice(0, 1).to_pylist()[0]
    if setting["tier"] != "model":
        return found
    sizes = tuple(int(size) for size in setting["sizes"].split(","))
    value = everyone_everywhere(Experiment(**setting | {"sizes": sizes}))
    if value is None:
        return found
    names = ("low", "value", "high", "p50", "p99")
    whole = {"community": WHOLE, "metric": "reliability", "count": 1, "networks": 1}
    row = setting | whole | dict.fromkeys(names, value)
    return pa.concat_tables([found, pa.Table.from_pylist([row], schema=aggregate_schema())])


def summarise(group: pa.Table, columns: Sequence[str] = SETTING) -> pa.Table:
    """On an executor: one setting to a row for each of its communities and metrics.

    A setting shares its resamples: drawing them is what costs, and each interval is still a bootstrap.
    """
    import pyarrow as pa

    # Rows come in whatever order the shuffle gave; the bootstrap must not depend on it.
    order = [(name, "ascending") for name in ("community", "experiment_id", "repetition")]
    ordered = group.sort_by(order)
    setting: dict[str, Any] = ordered.select(columns).slice(0, 1).to_pylist()[0]
    samples = _samples(ordered, setting.get("tier"))
    intervals = _intervals(samples, setting)
    summaries = [
        setting
        | {"community": own.community, "metric": own.metric}
        | {"count": len(own.values), "networks": len(np.unique(own.groups))}
        | {"low": interval.low, "value": interval.value, "high": interval.high}
        | {"p50": float(np.quantile(own.values, 0.5)), "p99": float(np.quantile(own.values, 0.99))}
        for own, interval in zip(samples, intervals, strict=True)
    ]
    return pa.Table.from_pylist(summaries, schema=aggregate_schema(columns))


@dataclass(frozen=True, slots=True)
class _Sample:
    """The known values of one metric in one community."""

    community: int
    metric: str
    values: Values
    groups: Groups


def _samples(ordered: pa.Table, tier: str | None) -> list[_Sample]:
    """A sample for each community and metric, without those of which there are no values."""
    communities = ordered["community"].to_numpy()
    columns = {
        metric: ordered[metric].to_numpy()  # null becomes NaN
        for metric in METRICS
        if not (tier == "model" and metric in OF_EVENTS)
    }
    networks = np.unique(ordered["experiment_id"].to_numpy(), return_inverse=True)[1]
    if tier not in ONE_NETWORK:
        networks = np.arange(len(networks))
    samples = []
    for community in np.unique(communities).tolist():
        own = communities == community
        for metric, column in columns.items():
            known = own & ~np.isnan(column)
            if known.any():
                samples.append(_Sample(community, metric, column[known], networks[known]))
    return samples


def _intervals(samples: list[_Sample], setting: dict[str, Any]) -> list[Interval]:
    if setting.get("tier") == "model":
        means = [float(own.values.mean()) for own in samples]
        return [Interval(mean, mean, mean) for mean in means]
    intervals = bootstrap_means(
        [own.values for own in samples], _seed(setting), [own.groups for own in samples]
    )
    for index, own in enumerate(samples):
        if own.metric in PROPORTIONS and np.isin(own.values, (0.0, 1.0)).all():
            intervals[index] = grouped_proportion(own.values, own.groups)
        elif own.metric in SHARES:
            intervals[index] = intervals[index].within(0.0, 1.0)
    return intervals


def _seed(setting: dict[str, Any]) -> int:
    digest = hashlib.blake2b(repr(sorted(setting.items())).encode(), digest_size=6).digest()
    return int.from_bytes(digest)


def write_aggregates(spark: SparkSession, store: ResultStore) -> Path:
    """Aggregate the store and keep the outcome as one Parquet file beside it."""
    path = store.directory / "aggregates"
    with store.naming_damage():
        aggregate(spark, store).coalesce(1).write.mode("overwrite").parquet(str(path))
    return path
