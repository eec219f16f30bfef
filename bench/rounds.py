"""Networks in rounds: a suite's first look, then more of those families that undecided claims need.

A round ends with a look at all claims. A claim that is undecided names the figures, variants and modes that
it needs more networks of; these get as many as the next look needs (bench.intervals), until their budget
is spent. The intervals hold over all looks together, so to stop when a claim is decided does not spoil its
verdict.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, decide
from bench.claims.claim import Place
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
    across: int = 1,
) -> list[Failure]:
    """Run a suite to its end, live networks on `across` executors; return the rows that failed."""
    run = partial(execute, spark, store=store, report=line, processes=processes, across=across)
    experiments = list(suite.experiments)
    if suite.families:
        line.decided(0, len(CLAIMS))
    failures = run(experiments, grids=suite.grids)
    there: dict[tuple[int, str], int] = {}
    while suite.families and not store.is_empty:
        decided = decide(CLAIMS, Aggregates.of(store))
        line.decided(sum(one.verdict.is_decided for one in decided), len(decided))
        asked = [want for one in decided for want in one.verdict.wants.items()]
        more = _further(suite.families, there, asked)
        if not more:
            break
        for (index, mode), look in more.items():
            family, began = suite.families[index], there.get((index, mode), FEWEST)
            experiments += family.between(began, look, mode)
            there[index, mode] = look
        failures += run(experiments)
    return failures


def _further(
    families: tuple[Family, ...],
    there: dict[tuple[int, str], int],
    asked: list[tuple[Place, int]],
) -> dict[tuple[int, str], int]:
    """By family and mode, how many networks the next look needs, where an undecided claim needs that."""
    found = {}
    for index, family in enumerate(families):
        for mode, needed in family.wanted(asked).items():
            known = there.get((index, mode), FEWEST)
            look = family.next_look(known, needed)
            if look > known:
                found[index, mode] = look
    return found
