"""The benchmark of sources: every way to read gives all events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.workloads import sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1500


def test_every_reader_reads_all_events(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "WARM", 1)
    path = tmp_path / "events.db"
    sources.fill(path, ROWS)
    assert sources.plain(path) == ROWS
    with sources.archive(path) as address:
        rows = list(sources.by_all(spark, address, ROWS))
    assert [row.settings["rows"] for row in rows] == [ROWS] * 6
    assert {row.metric for row in rows} == {"rate", "cpu"}
    assert all(row.value > 0 for row in rows if row.metric == "rate")
