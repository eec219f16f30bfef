"""Networks in rounds: a suite's first look, then more of those families that undecided claims need.

A round ends with a look at all claims. Whoever is undecided names the figures and variants that it needs more
networks of; these get as many as the next look needs (bench.intervals), until their budget is spent. The
intervals hold over all looks together, so to stop when a claim is decided does not spoil its verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.aggregates import Aggregates, write_aggregates
from bench.claims import CLAIMS, decide
from bench.intervals import FEWEST
from bench.progress import ProgressLine
from bench.spark.execute import Failure, execute
from bench.store import ResultStore
from bench.suites import Family, Suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_rounds(
    spark: SparkSession,
    suite: Suite,
    store: ResultStore,
    line: ProgressLine,
    *,
    processes: bool = False,
) -> list[Failure]:
    """Run a suite to its end; return the rows that failed."""
    experiments = list(suite.experiments)
    failures = execute(spark, experiments, store, line, processes=processes)
    there = dict.fromkeys(range(len(suite.families)), FEWEST)
    while suite.families and not store.is_empty:
        write_aggregates(spark, store)
        decided = decide(CLAIMS, Aggregates.read(store.directory))
        line.decided(sum(one.verdict.is_decided for one in decided), len(decided))
        wanted = {place for one in decided for place in one.verdict.wants}
        more = _further(suite.families, there, wanted)
        if not more:
            break
        for index, look in more.items():
            experiments += suite.families[index].between(there[index], look)
            there[index] = look
        failures += execute(spark, experiments, store, line, processes=processes)
    return failures


def _further(
    families: tuple[Family, ...], there: dict[int, int], wanted: set[tuple[str, str]]
) -> dict[int, int]:
    """By family, how many networks its next look needs, where an undecided claim needs that."""
    found = {}
    for index, family in enumerate(families):
        look = family.next_look(there[index])
        if look > there[index] and family.serves(wanted):
            found[index] = look
    return found
