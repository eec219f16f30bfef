"""Traces of any size, made by Spark, to see how an audit grows.

    python -m tests.bench.spark.generate --rows 10000000 --nodes 100 --out /tmp/traces

One community, in which every node has joined and publishes in turn: a row for each copy that is sent and
received, every tenth one a duplicate. One reception in a thousand is left out: somebody missed something.
A file has rows of one node, or of a few, in the order of time, as nodes write them.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from bench.spark.session import add_spark_options, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "/made"
MADE = """
    SELECT 0.0D AS time, {node} AS node, 'join' AS kind, '{topic}' AS topic,
        CAST(NULL AS STRING) AS event, CAST(NULL AS STRING) AS peer, CAST(NULL AS INT) AS hops,
        CAST(NULL AS STRING) AS detail
    FROM nodes
    UNION ALL
    SELECT 1.0D + e / 100 + late AS time, {node} AS node, kind, '{topic}' AS topic,
        lpad(hex(e), 32, '0') AS event, {peer} AS peer, if(kind <> 'publish', 1, NULL) AS hops,
        CAST(NULL AS STRING) AS detail
    FROM (
        SELECT e, n, inline(CASE
            WHEN n = e % {nodes} THEN concat(array(struct('publish' AS kind, 0.0D AS late, NULL AS other)),
                transform(filter(sequence(0L, {nodes} - 1L), other -> other <> n),
                    other -> struct('send' AS kind, 0.0D AS late, other AS other)))
            WHEN pmod(hash(e, n), 1000) = 0 THEN array()
            ELSE slice(array(
                struct('receive' AS kind, pmod(hash(e, n), 100000) / 1000000.0D AS late,
                    e % {nodes} AS other),
                struct('duplicate' AS kind, 0.2D AS late, e % {nodes} AS other)),
                1, if(pmod(hash(n, e), 10) = 0, 2, 1)) END)
        FROM (SELECT id DIV {events} AS n, id % {events} AS e FROM copies))
        AS made(e, n, kind, late, other)"""
NAME = "rpad(lpad(hex({}), 16, '0'), 40, '0')"
"""In SQL: the id of a node, by its number."""
ROWS_A_FILE = 1_000_000


def generate(spark: SparkSession, rows: int, nodes: int, out: str) -> None:
    """Write the traces of `nodes` nodes, about `rows` rows in all."""
    an_event = nodes + (nodes - 1) * 0.999 * 1.1  # sent and published, received and received again
    events = math.ceil(rows / an_event)
    files = max(rows // ROWS_A_FILE, 1)
    spark.range(nodes).selectExpr("id AS n").coalesce(1).createOrReplaceTempView("nodes")
    spark.range(0, events * nodes, 1, files).createOrReplaceTempView("copies")
    made = spark.sql(
        MADE.format(
            topic=TOPIC,
            nodes=nodes,
            events=events,
            node=NAME.format("n"),
            peer=NAME.format("other"),
        )
    )
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
