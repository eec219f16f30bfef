"""What happened to every event in every community that wanted it, by Spark SQL over traces.

A community wants an event when it is the event's topic or a super-topic: a prefix of its path, or one that
a member's `table` row names. Its members are those who had begun to join and not left when the event was
published. A parasite is a copy received in a community that does not want it, or by a node never in it, or
one that a node dropped because it is not in the community it was for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.intervals import Interval, mean_interval, wilson
from bench.results import PROPORTIONS, SHARES
from bench.spark.session import USUAL_PARTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTS = "spark.sql.shuffle.partitions"
LISTED = 1000
"""The most misses that are listed one by one."""

KEPT = ("published", "stays", "seen", "outcomes", "missed_by")
"""Views that are made once: small, or the outcome of most of the work."""

SENT_ALONG = 2_000_000
"""With fewer events than this, when they were published is sent to every task: some 100 MB."""

EXACT_ROWS = 2_000_000
"""With more rows than this, percentiles are approximate, and the parts of an interval go by hash."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome, as plain values."""

    nodes: int
    events: int
    communities: list[dict[str, Any]]
    """For each topic and metric: count, low, value, high, p50, p99 over its events."""
    latencies: list[dict[str, Any]]
    """For each topic: percentiles of the seconds from publication to each reception."""
    missing: dict[str, int]
    """How many `misses` there are in all, `missing_nodes` in how many rows of `missed_by`, and how many
    `parasites`."""
    missed_by: list[dict[str, Any]]
    """For each node that missed events, those that missed most first, at most `LISTED`: topic, how many it
    missed, and of how many."""
    missed: list[dict[str, Any]]
    """Event, topic and node of the first misses, at most `LISTED`."""
    parasites: list[dict[str, Any]]
    """Node, topic, event of the first copies that nobody there wanted, at most `LISTED`."""


def audit(spark: SparkSession, rows: DataFrame) -> Audit:
    """Audit the nodes whose traces these are."""
    rows.createOrReplaceTempView("trace")
    _cut_for(spark, rows.count())
    _view(spark, "lineage", _lineage(spark))
    for name, query in QUERIES.items():
        spark.sql(query).createOrReplaceTempView(name)
        if name in KEPT:
            spark.sql(f"CACHE TABLE {name}")
    [counts] = _collected(spark, COUNTS)
    large = counts["rows"] > EXACT_ROWS
    return Audit(
        counts["nodes"],
        counts["events"],
        _summaries(spark, large),
        _collected(
            spark,
            LATENCIES.format(
                hint="/*+ BROADCAST(published) */" if counts["events"] < SENT_ALONG else "",
                p50=_percentile(large, "late", 0.5),
                p99=_percentile(large, "late", 0.99),
            ),
        ),
        {name: counts[name] for name in ("misses", "missing_nodes", "parasites")},
        _collected(
            spark, f"SELECT * FROM missed_by ORDER BY missed DESC, node, topic LIMIT {LISTED}"
        ),
        _collected(spark, f"SELECT * FROM missing ORDER BY ALL LIMIT {LISTED}"),
        _collected(spark, f"SELECT * FROM parasites ORDER BY ALL LIMIT {LISTED}")
        if counts["parasites"]
        else [],
    )


def _cut_for(spark: SparkSession, rows: int) -> None:
    """Cut what is shuffled into parts of a million rows, where the usual number is the harness's own."""
    if spark.conf.get(PARTS) == USUAL_PARTS:
        spark.conf.set(PARTS, str(max(int(USUAL_PARTS), min(rows // 1_000_000, 1000))))


QUERIES = {
    "published": """
        SELECT event, min(topic) AS topic, min(time) AS published
        FROM trace WHERE kind = 'publish' GROUP BY event""",
    "wanted": """
        SELECT event, community, published FROM published JOIN lineage USING (topic)""",
    # A node's time in a community, from a join to whatever it wrote of joining or leaving next.
    "stays": """
        SELECT node, topic AS community, time AS since, until FROM (
            SELECT *, lead(time) OVER (PARTITION BY node, topic ORDER BY time, kind) AS until
            FROM trace WHERE kind IN ('join', 'leave'))
        WHERE kind = 'join'""",
    "members": """
        SELECT community, collect_list(struct(xxhash64(node) AS node, since, until)) AS stays,
            collect_set(xxhash64(node)) AS ever
        FROM stays GROUP BY community""",
    # All that the traces say of an event in a community, by one pass over them.
    "seen": """
        SELECT event, topic AS community,
            collect_set(CASE WHEN kind IN ('receive', 'publish') THEN xxhash64(node) END) AS nodes,
            count_if(kind = 'send') AS messages_inside, count_if(kind = 'upward') AS messages_upward,
            count_if(kind = 'receive' AND peer IS NOT NULL) AS useful,
            count_if(kind = 'duplicate') AS duplicates,
            max(CASE WHEN kind = 'receive' THEN hops END) AS rounds,
            max(CASE WHEN kind = 'receive' THEN time END) AS last
        FROM trace WHERE event IS NOT NULL GROUP BY event, topic""",
    "reach": """
        SELECT event, community, size(expected) AS alive,
            size(array_intersect(expected, nodes)) AS reached,
            array_except(expected, nodes) AS missing
        FROM (
            SELECT event, community, coalesce(nodes, array()) AS nodes, array_distinct(transform(
                filter(stays, s -> s.since <= published AND (s.until IS NULL OR published < s.until)),
                s -> s.node)) AS expected
            FROM wanted LEFT JOIN members USING (community) LEFT JOIN seen USING (event, community))
        WHERE size(expected) > 0""",
    "copies": """
        SELECT event, community, messages_inside, messages_upward, useful, duplicates, rounds,
            last - published AS seconds
        FROM seen JOIN published USING (event)""",
    # Those who had an event and were never in the community, or in one that does not want the event.
    "strange": """
        SELECT event, community, explode(array_except(nodes, coalesce(own.ever, array()))) AS id
        FROM seen JOIN published USING (event)
        LEFT JOIN (SELECT event, community, ever FROM wanted JOIN members USING (community)) own
        USING (event, community)""",
    "parasites": """
        SELECT t.event, t.topic, node FROM trace t JOIN strange s
        ON t.event = s.event AND t.topic = s.community AND xxhash64(node) = id WHERE kind = 'receive'
        UNION ALL
        SELECT event, t.topic, node FROM trace t JOIN published USING (event)
        WHERE kind = 'drop' AND detail = 'parasite'""",
    "unwanted": """
        SELECT event, topic AS community, count(*) AS parasites FROM parasites GROUP BY event, topic""",
    "outcomes": """
        SELECT community AS topic, event, missing,
            alive, reached, double(alive = reached) AS everyone,
            coalesce(messages_inside, 0) AS messages_inside,
            coalesce(messages_upward, 0) AS messages_upward,
            coalesce(useful, 0) AS useful, coalesce(duplicates, 0) AS duplicates,
            coalesce(parasites, 0) AS parasites, rounds, seconds
        FROM reach FULL JOIN copies USING (event, community)
        LEFT JOIN unwanted USING (event, community)""",
    "names": """
        SELECT DISTINCT xxhash64(node) AS id, node FROM stays""",
    "missing": """
        SELECT event, topic, node FROM (SELECT event, topic, explode(missing) AS id FROM outcomes)
        JOIN names USING (id)""",
    "missed_by": """
        SELECT node, topic, missed, count(*) AS events
        FROM (SELECT node, topic, count(*) AS missed FROM missing GROUP BY node, topic) m
        JOIN stays s USING (node) JOIN wanted w USING (community)
        WHERE community = topic AND since <= published AND (until IS NULL OR published < until)
        GROUP BY node, topic, missed""",
}
"""Views, each from those before it. Nodes in arrays are told by 64-bit hashes: of ten thousand nodes two
have the same one with a probability of 3 in 10^12."""

COUNTS = """
    SELECT (SELECT count(*) FROM trace) AS rows, (SELECT count(DISTINCT node) FROM trace) AS nodes,
        (SELECT count(*) FROM published) AS events,
        (SELECT coalesce(sum(size(missing)), 0) FROM outcomes WHERE missing IS NOT NULL) AS misses,
        (SELECT count(*) FROM missed_by) AS missing_nodes,
        (SELECT coalesce(sum(parasites), 0) FROM outcomes) AS parasites"""

LATENCIES = """
    SELECT topic, count(*) AS receptions, {p50} AS p50, {p99} AS p99, max(late) AS longest
    FROM (SELECT {hint} t.topic, time - published AS late FROM trace t JOIN published USING (event)
          WHERE kind = 'receive' AND peer IS NOT NULL)
    GROUP BY topic ORDER BY topic"""


METRICS = {
    "reception": "reached / nullif(alive, 0)",
    "reliability": "everyone",
    "efficiency": "useful / nullif(useful + duplicates, 0)",
    "climbing": "double(messages_upward > 0)",
    "complete_rounds": "double(CASE WHEN everyone = 1 THEN rounds END)",
    "messages_inside": "double(messages_inside)",
    "messages_upward": "double(messages_upward)",
    "parasites": "double(parasites)",
    "rounds": "double(rounds)",
    "seconds": "double(seconds)",
}
"""In SQL, the metrics of an event in a community, as bench.results names them."""
BATCHES = 200
"""More events than this are taken together in as many parts, which bounds what an interval costs."""


def _percentile(large: bool, column: str, share: float) -> str:
    """In SQL: exact for few rows; for many within 1/10,000 of its rank, in little memory."""
    if large:
        return f"approx_percentile({column}, {share}, 10000)"
    return f"percentile({column}, {share})"


def _summaries(spark: SparkSession, large: bool) -> list[dict[str, Any]]:
    from pyspark.sql.pandas.types import from_arrow_schema

    asked = (f"{expression} AS {name}" for name, expression in METRICS.items())
    outcomes = spark.table("outcomes").selectExpr("topic", "event", *asked)
    if large:
        return _large_summaries(outcomes)
    found = outcomes.groupBy("topic").applyInArrow(
        _summarise_topic, from_arrow_schema(_summary_schema())
    )
    return [row.asDict() for row in found.orderBy("topic", "metric").collect()]


def _large_summaries(outcomes: DataFrame) -> list[dict[str, Any]]:
    """The same by SQL alone: the events of a topic fall into `BATCHES` parts by the hash of their ids, and
    only the means of the parts come here."""
    names = ", ".join(f"'{name}', {name}" for name in METRICS)
    long = outcomes.selectExpr(
        "topic",
        f"pmod(hash(event), {BATCHES}) AS part",
        f"stack({len(METRICS)}, {names}) AS (metric, value)",
    ).where("value IS NOT NULL")
    parts = long.groupBy("topic", "metric", "part").agg(_expression("avg(value) AS mean"))
    means: dict[tuple[str, str], list[float]] = {}
    for row in parts.collect():
        means.setdefault((row.topic, row.metric), []).append(row["mean"])
    whole = long.groupBy("topic", "metric").agg(
        *(
            _expression(text)
            for text in ("count(value) AS count", "avg(value) AS value", "sum(value) AS total")
        ),
        *(
            _expression(f"{_percentile(True, 'value', share)} AS {name}")
            for name, share in (("p50", 0.5), ("p99", 0.99))
        ),
    )
    found = []
    for row in whole.orderBy("topic", "metric").collect():
        interval = _interval(
            row.metric, means[row.topic, row.metric], row.total, row["count"], row.value
        )
        low_and_high = {"low": interval.low, "high": interval.high}
        told = row.asDict()
        told.pop("total")
        found.append(told | low_and_high)
    return found


def _expression(text: str) -> Any:
    from pyspark.sql import functions as sql

    return sql.expr(text)


def _interval(
    metric: str, means: Sequence[float], total: float, count: int, value: float
) -> Interval:
    """The interval of a metric from the means of parts of its events."""
    interval = mean_interval(list(means))
    if metric in PROPORTIONS:
        interval = wilson(total, count)
    elif metric in SHARES:
        interval = interval.within(0.0, 1.0)
    return interval if interval.is_bounded else Interval(value, value, value)


def _summary_schema() -> pa.Schema:
    import pyarrow as pa

    numbers = [(name, pa.float64()) for name in ("low", "value", "high", "p50", "p99")]
    return pa.schema(
        [("topic", pa.string()), ("metric", pa.string()), ("count", pa.int64()), *numbers]
    )


def _summarise_topic(group: pa.Table) -> pa.Table:
    """The events of one topic; rows come in whatever order the shuffle gave."""
    import pyarrow as pa

    ordered = group.sort_by("event")
    topic = ordered["topic"][0].as_py()
    found = []
    for metric in METRICS:
        values = ordered[metric].drop_null().to_numpy()
        if not len(values):
            continue
        parts = np.array_split(values, min(BATCHES, len(values)))
        value = float(values.mean())
        means = [float(part.mean()) for part in parts]
        interval = _interval(metric, means, float(values.sum()), len(values), value)
        found.append(
            {"topic": topic, "metric": metric, "count": len(values), "value": value}
            | {"low": interval.low, "high": interval.high}
            | {"p50": float(np.quantile(values, 0.5)), "p99": float(np.quantile(values, 0.99))}
        )
    return pa.Table.from_pylist(found, schema=_summary_schema())


def _lineage(spark: SparkSession) -> list[tuple[str, str]]:
    """(topic, community): every published topic with the communities that want its events."""
    above: dict[str, set[str]] = {}
    links = spark.sql(
        "SELECT DISTINCT topic, substring(detail, 7) AS super FROM trace "
        "WHERE kind = 'table' AND detail LIKE 'super %'"
    )
    for row in links.collect():
        above.setdefault(row.topic, set()).add(row.super)
    topics = spark.sql("SELECT DISTINCT topic FROM trace WHERE kind = 'publish'").collect()
    return [(row.topic, own) for row in topics for own in sorted(_wanting(row.topic, above))]


def _wanting(topic: str, above: dict[str, set[str]]) -> set[str]:
    """The topic, the prefixes of its path, and whatever tables say is above one of them."""
    found: set[str] = set()
    waiting = [topic]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += above.get(name, ())
            if name != "/":
                waiting.append(name.rpartition("/")[0] or "/")
    return found


def _view(spark: SparkSession, name: str, pairs: Iterable[tuple[str, str]]) -> None:
    import pyarrow as pa

    pairs = list(pairs)
    columns = {"topic": [topic for topic, _ in pairs], "community": [own for _, own in pairs]}
    schema = pa.schema([("topic", pa.string()), ("community", pa.string())])
    spark.createDataFrame(pa.table(columns, schema=schema)).createOrReplaceTempView(name)


def _collected(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.sql(query).collect()]
