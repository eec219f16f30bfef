"""A verdict follows from the parameters of the experiments, by way of all stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.aggregates import Aggregates
from bench.claims import CLAIMS
from bench.spark.execute import execute
from bench.store import ResultStore
from bench.suites import expand
from bench.suites.built_in import SIMULATED
from tests.bench.spark.test_grid import silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_gossip_to_too_few_is_not_of_the_order_of_n_log_n(
    spark: SparkSession, tmp_path: Path
) -> None:
    grown = {**SIMULATED, "c": [5.0, -3.5], "sizes": [(100, 10), (1000, 10), (3000, 10)]}
    rows = expand("flip", "scale", tier="simulate", repetitions=30, **grown)
    store = ResultStore(spark, tmp_path).open()
    assert execute(spark, rows, store, silent) == []
    claim = next(claim for claim in CLAIMS if claim.name == "messages")
    found = Aggregates.of(store)
    for c, holds in ((5.0, True), (-3.5, False)):
        assert claim.evidence(Aggregates(found.select(c=c))).holds is holds
