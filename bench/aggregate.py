"""From result rows to aggregates: a row for each setting, community and metric, with its interval.

A *setting* is an experiment without its repetition and seed: what a point of a figure stands for.
Proportions (reliability) get Wilson's interval, means the bootstrap's; the percentiles are exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bench.intervals import Interval, bootstrap_means, wilson
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

DERIVED = ("reception", "reliability", "efficiency")
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
efficiency: first receptions over all receptions. The others are means of the columns of the same name.
"""

METRIC_EXPRESSIONS = (
    "community",
    "experiment_id",
    "repetition",
    "reached / nullif(alive, 0) AS reception",
    "everyone AS reliability",
    "useful / nullif(useful + duplicates, 0) AS efficiency",
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

WHOLE = -1
"""Stands in `community` for all communities together: sums, the last round, everyone everywhere."""

_TEXT = ("topic", "suite", "figure", "tier", "protocol", "mode", "sizes", "failure", "metric")
_WHOLE_NUMBERS = ("z", "publish_level", "community", "count")
SUMMARY = ("community", "metric", "count", "low", "value", "high", "p50", "p99")
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
    mean = (f.sum(f.col("table_entries") * f.col("processes")) / f.sum("processes")).alias(
        "table_entries"
    )
    found = results.groupBy(*own).agg(*sums, *last, mean, f.min("everyone").alias("everyone"))
    return found.withColumn("community", f.lit(WHOLE).cast("bigint"))


def _metrics(results: DataFrame) -> DataFrame:
    """The metrics of each row; null where a tier does not know."""
    return results.selectExpr(
        *[name for name in SETTING if name != "sizes"],
        "concat_ws(',', sizes) AS sizes",
        *METRIC_EXPRESSIONS,
    )


def _summarise_setting(group: pa.Table) -> pa.Table:
    return summarise(group)  # Spark looks at how many arguments it takes


def summarise(group: pa.Table, columns: Sequence[str] = SETTING) -> pa.Table:
    """On an executor: one setting to a row for each of its communities and metrics.

    A setting shares its resamples: drawing them is what costs, and each interval is still a bootstrap.
    """
    import pyarrow as pa

    # Rows come in whatever order the shuffle gave; the bootstrap must not depend on it.
    order = [(name, "ascending") for name in ("community", "experiment_id", "repetition")]
    ordered = group.sort_by(order)
    setting: dict[str, Any] = ordered.select(columns).slice(0, 1).to_pylist()[0]
    keys, samples = _samples(ordered)
    intervals = _intervals(keys, samples, _seed(setting))
    summaries = [
        setting
        | {"community": community, "metric": metric, "count": len(values)}
        | {"low": interval.low, "value": interval.value, "high": interval.high}
        | {"p50": float(np.quantile(values, 0.5)), "p99": float(np.quantile(values, 0.99))}
        for (community, metric), values, interval in zip(keys, samples, intervals, strict=True)
    ]
    return pa.Table.from_pylist(summaries, schema=aggregate_schema(columns))


def _samples(ordered: pa.Table) -> tuple[list[tuple[int, str]], list[npt.NDArray[np.float64]]]:
    """The known values of each community and metric, without those of which there are none."""
    communities = ordered["community"].to_numpy()
    columns = {metric: ordered[metric].to_numpy() for metric in METRICS}  # null becomes NaN
    keys, samples = [], []
    for community in np.unique(communities).tolist():
        own = communities == community
        for metric, column in columns.items():
            values = column[own]
            values = values[~np.isnan(values)]
            if len(values):
                keys.append((community, metric))
                samples.append(values)
    return keys, samples


def _intervals(
    keys: list[tuple[int, str]], samples: list[npt.NDArray[np.float64]], seed: int
) -> list[Interval]:
    intervals = bootstrap_means(samples, seed)
    for index, ((_, metric), values) in enumerate(zip(keys, samples, strict=True)):
        if metric == "reliability" and np.isin(values, (0.0, 1.0)).all():
            intervals[index] = wilson(float(values.sum()), len(values))
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
