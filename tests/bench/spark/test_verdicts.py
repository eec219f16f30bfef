"""A verdict follows from the parameters of the experiments, by way of all stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.aggregate import write_aggregates
from bench.aggregates import Aggregates
from bench.claims import CLAIMS
from bench.spark.execute import execute
from bench.store import ResultStore
from bench.suites import expand
from bench.suites.settings import SIMULATED
from tests.bench.spark.test_grid import silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("links", "holds"), [(5.0, True), (1.0, False)])
def test_with_fewer_links_no_event_goes_up_any_more(
    links: float, holds: bool, spark: SparkSession, tmp_path: Path
) -> None:
    crashed = {**SIMULATED, "g": links, "failed": 0.4}
    rows = expand("flip", "figures-13-16", tier="simulate", repetitions=100, **crashed)
    store = ResultStore(tmp_path).open()
    assert execute(spark, rows, store, silent) == []
    write_aggregates(spark, store)
    claim = next(claim for claim in CLAIMS if claim.name == "upward")
    assert claim.evidence(Aggregates.read(tmp_path)).holds is holds
