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

from bench.intervals import Interval, mean_interval, wilson
from bench.results import PROPORTIONS, SHARES
from bench.spark.session import cut_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED = 1000
"""The most misses that are listed one by one."""

KEPT = ("outline", "nodes", "published", "stays", "accounts", "outcomes", "missed_by")
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
    made: list[str] = []

    def make(name: str, query: str) -> None:
        spark.sql(query).createOrReplaceTempView(name)
        made.append(name)
        if name in KEPT:
            spark.sql(f"CACHE TABLE {name}")

    try:
        make("outline", OUTLINE)
        [counts] = _collected(spark, COUNTS)
        cut_for(spark, counts["rows"])
        _view(spark, "lineage", _lineage(spark))
        for name, query in ACCOUNTS.items():
            make(name, query)
        strange = not spark.sql("SELECT * FROM strange LIMIT 1").isEmpty()
        make("parasites", PARASITES if strange or counts["dropped"] else NO_PARASITES)
        for name, query in OUTCOMES.items():
            make(name, query)
        return _outcome(spark, counts)
    finally:
        for name in made:
            if name in KEPT:
                spark.catalog.uncacheTable(name)


def _outcome(spark: SparkSession, counts: dict[str, Any]) -> Audit:
    large = counts["rows"] > EXACT_ROWS
    [totals] = _collected(spark, TOTALS)
    events = totals.pop("events")
    hint = "/*+ BROADCAST(published) */" if events < SENT_ALONG else ""
    late = LATENCIES.format(hint=hint, percentiles=_percentiles(large, "late"))
    return Audit(
        counts["nodes"],
        events,
        _summaries(spark, large),
        _collected(spark, late),
        totals,
        _collected(
            spark, f"SELECT * FROM missed_by ORDER BY missed DESC, node, topic LIMIT {LISTED}"
        ),
        _collected(spark, f"SELECT * FROM missing ORDER BY ALL LIMIT {LISTED}"),
        _collected(spark, f"SELECT * FROM parasites ORDER BY ALL LIMIT {LISTED}")
        if totals["parasites"]
        else [],
    )


# Nodes are numbered, and who had an event is kept as bits of 64-bit words, 64 nodes a word. So the one large
# aggregate, over all rows of all events, has fixed columns only: Spark adds up in each task what it has read,
# by compiled code, and shuffles the sums. Sets of nodes would be sorted, and shuffled whole. The shuffle is
# by event, community and word: one topic or hour may have nearly all rows, and events go on over the hour.

OUTLINE = """
    SELECT node, topic, kind, CASE WHEN kind IN ('table', 'drop') THEN detail END AS detail,
        count(*) AS rows
    FROM trace GROUP BY ALL"""
"""All that is asked of nodes and topics as such, by one pass over the traces."""

COUNTS = """
    SELECT coalesce(sum(rows), 0) AS rows, count(DISTINCT node) AS nodes,
        count_if(kind = 'drop' AND detail = 'parasite') AS dropped
    FROM outline"""

ACCOUNTS = {
    "nodes": """
        SELECT node, int(number DIV 64) AS word, shiftleft(1L, int(number % 64)) AS bit
        FROM (SELECT node, row_number() OVER (ORDER BY node) - 1 AS number
              FROM (SELECT DISTINCT node FROM outline))""",
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
        SELECT community, word, collect_list(struct(bit, since, until)) AS stays, bit_or(bit) AS ever
        FROM stays JOIN nodes USING (node) GROUP BY community, word""",
    "expected": """
        SELECT /*+ BROADCAST(members) */ event, community, word, published, ever,
            aggregate(stays, 0L, (kept, s) -> kept | CASE
                WHEN s.since <= published AND (s.until IS NULL OR published < s.until) THEN s.bit
                ELSE 0L END) AS expected
        FROM wanted JOIN members USING (community)""",
    # All that the traces say of an event in a community, by one pass over them.
    "seen": """
        SELECT /*+ BROADCAST(nodes) */ event, topic AS community, word,
            bit_or(CASE WHEN kind IN ('receive', 'publish') THEN bit ELSE 0L END) AS had,
            count_if(kind = 'send') AS messages_inside, count_if(kind = 'upward') AS messages_upward,
            count_if(kind = 'receive' AND peer IS NOT NULL) AS useful,
            count_if(kind = 'duplicate') AS duplicates,
            max(CASE WHEN kind = 'receive' THEN hops END) AS rounds,
            max(CASE WHEN kind = 'receive' THEN time END) AS last
        FROM trace JOIN nodes USING (node) WHERE event IS NOT NULL GROUP BY event, topic, word""",
    "accounts": """
        SELECT event, community, word, coalesce(e.published, s.published) AS published,
            coalesce(expected, 0L) AS expected, coalesce(ever, 0L) AS ever, coalesce(had, 0L) AS had,
            messages_inside, messages_upward, useful, duplicates, rounds, last
        FROM expected e FULL JOIN (SELECT * FROM seen JOIN published USING (event)) s
        USING (event, community, word)""",
    # Those who had an event and were never in the community, or in one that does not want the event.
    "strange": """
        SELECT event, community, node FROM accounts JOIN nodes USING (word)
        WHERE (had & ~ever) <> 0 AND (had & ~ever & bit) <> 0""",
}
"""Views, each from those before it."""

PARASITES = """
    SELECT t.event, t.topic, t.node FROM trace t JOIN strange s
    ON t.event = s.event AND t.topic = s.community AND t.node = s.node WHERE kind = 'receive'
    UNION ALL
    SELECT event, t.topic, node FROM trace t JOIN published USING (event)
    WHERE kind = 'drop' AND detail = 'parasite'"""
NO_PARASITES = "SELECT '' AS event, '' AS topic, '' AS node WHERE false"

OUTCOMES = {
    "unwanted": """
        SELECT event, topic, count(*) AS parasites FROM parasites GROUP BY event, topic""",
    "outcomes": """
        SELECT *, double(alive = reached) AS everyone, coalesce(parasites, 0) AS parasites_there
        FROM (
            SELECT event, community AS topic, nullif(sum(bit_count(expected)), 0) AS alive,
                sum(bit_count(expected & had)) AS reached,
                coalesce(sum(messages_inside), 0) AS messages_inside,
                coalesce(sum(messages_upward), 0) AS messages_upward,
                coalesce(sum(useful), 0) AS useful, coalesce(sum(duplicates), 0) AS duplicates,
                max(rounds) AS rounds, max(last) - min(published) AS seconds
            FROM accounts GROUP BY event, community
            HAVING alive IS NOT NULL OR count(useful) > 0)
        LEFT JOIN unwanted USING (event, topic)""",
    "missing": """
        SELECT event, community AS topic, node FROM accounts JOIN nodes USING (word)
        WHERE (expected & ~had) <> 0 AND (expected & ~had & bit) <> 0""",
    # How many events there are before each moment at which a node comes or goes.
    "moments": """
        SELECT *, sum(published) OVER (PARTITION BY community ORDER BY time, published
            ROWS UNBOUNDED PRECEDING) AS before
        FROM (
            SELECT community, published AS time, 1 AS published, NULL AS node, 0 AS sign FROM wanted
            UNION ALL SELECT community, since, 0, node, -1 FROM stays
            UNION ALL SELECT community, coalesce(until, double('inf')), 0, node, 1 FROM stays)""",
    "missed_by": """
        SELECT node, topic, missed, events
        FROM (SELECT node, topic, count(*) AS missed FROM missing GROUP BY node, topic)
        JOIN (SELECT node, community AS topic, sum(sign * before) AS events FROM moments
              WHERE node IS NOT NULL GROUP BY node, community) USING (node, topic)""",
}
"""Views on those of `ACCOUNTS`."""

TOTALS = """
    SELECT (SELECT count(*) FROM published) AS events,
        (SELECT coalesce(sum(alive - reached), 0) FROM outcomes) AS misses,
        (SELECT count(*) FROM missed_by) AS missing_nodes,
        (SELECT count(*) FROM parasites) AS parasites"""

LATENCIES = """
    SELECT topic, receptions, percentiles[0] AS p50, percentiles[1] AS p99, longest
    FROM (SELECT topic, count(*) AS receptions, {percentiles} AS percentiles, max(late) AS longest
          FROM (SELECT {hint} t.topic, time - published AS late FROM trace t JOIN published USING (event)
                WHERE kind = 'receive' AND peer IS NOT NULL)
          GROUP BY topic)
    ORDER BY topic"""


METRICS = {
    "reception": "reached / nullif(alive, 0)",
    "reliability": "everyone",
    "efficiency": "useful / nullif(useful + duplicates, 0)",
    "climbing": "double(messages_upward > 0)",
    "complete_rounds": "double(CASE WHEN everyone = 1 THEN rounds END)",
    "messages_inside": "double(messages_inside)",
    "messages_upward": "double(messages_upward)",
    "parasites": "double(parasites_there)",
    "rounds": "double(rounds)",
    "seconds": "double(seconds)",
}
"""In SQL, the metrics of an event in a community, as bench.results names them."""
BATCHES = 200
"""More events than this are taken together in as many parts, which bounds what an interval costs."""


def _percentiles(large: bool, column: str) -> str:
    """In SQL, p50 and p99: exact for few rows; for many within 1/10,000 of their rank, in little memory."""
    if large:
        return f"approx_percentile({column}, array(0.5, 0.99), 10000)"
    return f"percentile({column}, array(0.5, 0.99))"


def _summaries(spark: SparkSession, large: bool) -> list[dict[str, Any]]:
    """Of each topic and metric; the interval is of the means of parts of its events, in their order or by the
    hash of their ids."""
    from pyspark.sql import functions as sql

    asked = (f"{expression} AS {name}" for name, expression in METRICS.items())
    names = ", ".join(f"'{name}', {name}" for name in METRICS)
    window = f"ntile({BATCHES}) OVER (PARTITION BY topic, metric ORDER BY event)"
    part = f"pmod(hash(event), {BATCHES})" if large else window
    values = (
        spark.table("outcomes")
        .selectExpr("topic", "event", *asked)
        .selectExpr("topic", "event", f"stack({len(METRICS)}, {names}) AS (metric, value)")
        .where("value IS NOT NULL")
        .selectExpr("topic", "metric", "value", f"{part} AS part")
    )
    means: dict[tuple[str, str], list[float]] = {}
    parts = values.groupBy("topic", "metric", "part").agg(sql.avg("value").alias("mean"))
    for row in parts.orderBy("part").collect():
        means.setdefault((row.topic, row.metric), []).append(row["mean"])
    whole = values.groupBy("topic", "metric").agg(
        sql.count("value").alias("count"),
        sql.avg("value").alias("value"),
        sql.sum("value").alias("total"),
        sql.expr(f"{_percentiles(large, 'value')} AS percentiles"),
    )
    found = []
    for row in whole.orderBy("topic", "metric").collect():
        interval = _interval(row, means[row.topic, row.metric])
        told = {name: row[name] for name in ("topic", "metric", "count")}
        told |= {"low": interval.low, "value": row.value, "high": interval.high}
        found.append(told | dict(zip(("p50", "p99"), row.percentiles, strict=True)))
    return found


def _interval(row: Any, means: Sequence[float]) -> Interval:
    """The interval of a metric from the means of parts of its events."""
    interval = mean_interval(means)
    if row.metric in PROPORTIONS:
        interval = wilson(row.total, row["count"])
    elif row.metric in SHARES:
        interval = interval.within(0.0, 1.0)
    return interval if interval.is_bounded else Interval(row.value, row.value, row.value)


def _lineage(spark: SparkSession) -> list[tuple[str, str]]:
    """(topic, community): every published topic with the communities that want its events."""
    above: dict[str, set[str]] = {}
    links = spark.sql(
        "SELECT DISTINCT topic, substring(detail, length('added super ') + 1) AS super FROM outline "
        "WHERE kind = 'table' AND detail LIKE 'added super %'"
    )
    for row in links.collect():
        above.setdefault(row.topic, set()).add(row.super)
    topics = spark.sql("SELECT DISTINCT topic FROM outline WHERE kind = 'publish'").collect()
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
