"""Traces of any size, made by Spark, to see how an audit grows.

    python -m bench.analysis.generate --rows 10000000 --nodes 100 --out /tmp/traces

One community, in which every node has joined and publishes in turn: a row for each copy that is sent and
received, every tenth one a duplicate. One reception in a thousand is left out: somebody missed something.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bench.spark.session import add_spark_options, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "/made"
MADE = """
    SELECT 0.0D AS time, rpad(lpad(hex(n), 16, '0'), 40, '0') AS node, 'join' AS kind, '{topic}' AS topic,
        CAST(NULL AS STRING) AS event, CAST(NULL AS STRING) AS peer, CAST(NULL AS INT) AS hops,
        CAST(NULL AS STRING) AS detail
    FROM nodes
    UNION ALL
    SELECT 1.0D + e / 100 + late AS time,
        rpad(lpad(hex(if(kind = 'send', e % {nodes}, n)), 16, '0'), 40, '0'), kind, '{topic}',
        lpad(hex(e), 32, '0'),
        if(kind <> 'publish', rpad(lpad(hex(if(kind = 'send', n, e % {nodes})), 16, '0'), 40, '0'), NULL),
        if(kind <> 'publish', 1, NULL), CAST(NULL AS STRING)
    FROM (
        SELECT e, n, explode(CASE
            WHEN n = e % {nodes} THEN array(named_struct('kind', 'publish', 'late', 0.0D))
            WHEN pmod(hash(e, n), 1000) = 0 THEN array(named_struct('kind', 'send', 'late', 0.0D))
            WHEN pmod(hash(n, e), 10) = 0 THEN array(named_struct('kind', 'send', 'late', 0.0D),
                named_struct('kind', 'receive', 'late', pmod(hash(e, n), 100000) / 1000000.0D),
                named_struct('kind', 'duplicate', 'late', 0.2D))
            ELSE array(named_struct('kind', 'send', 'late', 0.0D),
                named_struct('kind', 'receive', 'late', pmod(hash(e, n), 100000) / 1000000.0D)) END) AS row
        FROM events CROSS JOIN nodes) LATERAL VIEW inline(array(row)) made AS kind, late"""


def generate(spark: SparkSession, rows: int, nodes: int, out: str) -> None:
    """Write the traces of `nodes` nodes, about `rows` rows in all."""
    events = max(rows * 10 // (nodes * 21), 1)
    spark.range(events).selectExpr("id AS e").createOrReplaceTempView("events")
    spark.range(nodes).selectExpr("id AS n").createOrReplaceTempView("nodes")
    made = spark.sql(MADE.format(topic=TOPIC, nodes=nodes)).repartition(max(rows // 1_000_000, 1))
    made.write.mode("errorifexists").parquet(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="make traces of any size")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--out", required=True, help="a directory or a URI that Spark writes")
    add_spark_options(parser)
    arguments = parser.parse_args()
    with session_of(arguments, is_long=True) as spark:
        generate(spark, arguments.rows, arguments.nodes, arguments.out)


if __name__ == "__main__":
    main()
