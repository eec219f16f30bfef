"""The aggregates of a few rows, against numbers worked out by hand."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from bench.aggregates import SETTING, Aggregates, summarise, write_aggregates
from bench.experiment import Experiment
from bench.intervals import wilson
from bench.results import METRICS, UNITS, WHOLE, CommunityResult, table
from bench.spark import session
from bench.store import ResultStore, StoreError
from bench.tiers import run
from pubsub.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPERIMENT = Experiment(
    suite="s", figure="f", tier="simulate", sizes=(10, 4), repetitions=4, seed=1
)


def result(
    repetition: int, community: int, reached: int, alive: int, **more: Any
) -> CommunityResult:
    return CommunityResult(
        repetition=repetition,
        community=community,
        processes=EXPERIMENT.sizes[community],
        alive=alive,
        reached=reached,
        everyone=float(reached == alive),
        **more,
    )


RESULTS = [
    result(0, 0, 10, 10, messages_inside=40, messages_upward=2, useful=9, duplicates=3, rounds=4),
    result(0, 1, 4, 4, messages_inside=8, useful=4, duplicates=4, rounds=6),
    result(1, 0, 10, 10, messages_inside=44, messages_upward=0, useful=9, duplicates=9, rounds=5),
    result(1, 1, 0, 4, messages_inside=0, useful=0, duplicates=0),
    result(2, 0, 5, 10, messages_inside=20, messages_upward=4, useful=4, duplicates=0, rounds=3),
    result(2, 1, 4, 4, messages_inside=8, useful=4, duplicates=0, rounds=9),
    result(3, 0, 9, 9, messages_inside=36, messages_upward=2, useful=8, duplicates=8, rounds=4),
    result(3, 1, 0, 0, messages_inside=0, useful=0, duplicates=0),
]


def keep(directory: Path, parts: list[pa.Table], tier: str = "simulate") -> ResultStore:
    store = ResultStore(directory).open()
    place = store.results / "suite=s" / f"tier={tier}"
    place.mkdir(parents=True)
    for number, part in enumerate(parts):
        kept = part.drop_columns(["suite", "tier"])
        parquet.write_table(kept, place / f"part-{number}.parquet")
    return store


def made() -> pa.Table:
    return table(EXPERIMENT, [(EXPERIMENT, RESULTS)], 1.0)


def all_of(directory: Path) -> list[Any]:
    return Aggregates.read(directory).select()


def test_aggregates_are_those_worked_out_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    store = keep(tmp_path, [made()])
    write_aggregates(spark, store)
    found = {(row.community, row.metric): row for row in all_of(tmp_path)}

    def values(community: int, metric: str) -> tuple[int, float]:
        row = found[community, metric]
        assert row.low <= row.value <= row.high
        return row.count, row.value

    assert values(0, "reception") == (4, pytest.approx((1 + 1 + 0.5 + 1) / 4))
    assert values(1, "reception") == (3, pytest.approx(2 / 3))  # nobody was alive in the last one
    assert found[0, "reliability"].interval == wilson(3, 4)
    assert values(0, "messages_inside") == (4, 35.0)
    assert values(0, "efficiency") == (4, pytest.approx((0.75 + 0.5 + 1 + 0.5) / 4))
    assert values(1, "efficiency") == (2, pytest.approx(0.75))
    assert values(1, "rounds") == (2, 7.5)
    assert (1, "messages_upward") not in found
    assert (0, "seconds") not in found


def test_all_communities_together_are_sums_the_last_round_and_everyone_everywhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = keep(tmp_path, [made()])
    write_aggregates(spark, store)
    found = {row.metric: row for row in all_of(tmp_path) if row.community == WHOLE}
    assert found["reception"].value == pytest.approx((1 + 10 / 14 + 9 / 14 + 1) / 4)
    assert found["reliability"].value == 0.5
    assert found["rounds"].value == (6 + 5 + 9 + 4) / 4
    assert found["messages_inside"].value == (48 + 44 + 28 + 36) / 4


def test_events_that_went_up_and_complete_runs_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = keep(tmp_path, [made()])
    write_aggregates(spark, store)
    found = {(row.community, row.metric): row for row in all_of(tmp_path)}
    assert found[0, "climbing"].interval == wilson(3, 4)
    assert found[WHOLE, "complete_rounds"].value == (6 + 4) / 2
    assert found[WHOLE, "complete_rounds"].count == 2


def test_formulas_have_no_interval_and_a_product_for_all_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked = {"suite": "s", "figure": "f", "tier": "model", "protocol": "multicast"}
    certain = Experiment(**asked, sizes=(10, 10), c=40.0)
    likely = Experiment(**asked, sizes=(100, 100, 100), c=2.0)
    parts = [table(own, run(own), 0.0) for own in (certain, likely)]
    write_aggregates(spark, keep(tmp_path, parts, tier="model"))
    reliability = [row for row in all_of(tmp_path) if row.metric == "reliability"]
    assert all(row.low == row.value == row.high for row in reliability)
    three = {row.community: row.value for row in reliability if row.c == 2.0}
    assert three[WHOLE] == pytest.approx(three[0] ** 3)
    assert not [row for row in all_of(tmp_path) if row.metric == "climbing"]


def test_events_of_one_network_count_as_one_network(spark: SparkSession, tmp_path: Path) -> None:
    parts = []
    for network, reached in enumerate((10, 10, 5, 10, 2, 10)):
        shared = {"tier": "emulate", "mode": "structured", "sizes": (10,)}
        asked = replace(EXPERIMENT, network=network, **shared)
        own = [result(repetition, 0, reached, 10) for repetition in range(5)]
        parts.append(table(asked, [(asked, own)], 0.0))
    write_aggregates(spark, keep(tmp_path, parts, tier="emulate"))
    found = {row.metric: row for row in all_of(tmp_path) if row.community == 0}
    assert found["reliability"].count == 30
    assert found["reliability"].networks == (0, 1, 2, 3, 4, 5)
    assert found["reliability"].sample == (1, 1, 0, 1, 0, 1)
    assert found["reception"].sample == pytest.approx((1, 1, 0.5, 1, 0.2, 1))
    assert found["reception"].high - found["reception"].low > 0.4
    assert found["reception"].p50 == 1.0


def test_simulated_events_are_kept_in_batches(spark: SparkSession, tmp_path: Path) -> None:
    asked = replace(EXPERIMENT, repetitions=200, sizes=(10,))
    own = [result(number, 0, 10 if number % 4 else 5, 10) for number in range(200)]
    write_aggregates(spark, keep(tmp_path, [table(asked, [(asked, own)], 0.0)]))
    [found] = [row for row in all_of(tmp_path) if (row.community, row.metric) == (0, "reliability")]
    assert len(found.sample) == 50
    assert (found.count, found.value) == (200, 0.75)
    assert found.interval == wilson(150, 200)


def test_aggregates_do_not_depend_on_the_order_of_the_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = keep(tmp_path / "one", [made()])
    many = keep(tmp_path / "many", [made().slice(i, 1) for i in reversed(range(len(made())))])
    write_aggregates(spark, one)
    write_aggregates(spark, many)
    assert all_of(one.directory) == all_of(many.directory)


def test_a_summary_is_the_same_whatever_order_the_shuffle_gave() -> None:
    generator = np.random.default_rng(5)
    rows = [
        {"community": 0, "metric": metric, "unit": UNITS[metric], "network": network}
        | {"event": event, "events": 1, "value": generator.random()}
        for metric in METRICS
        for network in range(3)
        for event in range(4)
    ]
    asked = {"sizes": "10", "balance": False, "sure_links": False, "z": 3, "publish_level": 0}
    made = pa.Table.from_pylist([{**dict.fromkeys(SETTING), **asked, **row} for row in rows])
    expected = summarise(made)
    assert expected.num_rows == len(METRICS)
    for _ in range(5):
        assert summarise(made.take(generator.permutation(len(rows)))) == expected


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store = keep(tmp_path, [made()])
    (store.results / "suite=s" / "tier=simulate" / "part-7.parquet").write_bytes(b"not Parquet")
    with pytest.raises(StoreError, match=r"part-7\.parquet cannot be read"):
        write_aggregates(spark, store)
    with pytest.raises(StoreError, match=r"part-7\.parquet cannot be read"):
        store.finished_ids(spark)


def test_the_command_says_in_one_sentence_which_file_is_damaged(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = keep(tmp_path, [])
    (store.results / "suite=s" / "tier=simulate" / "part-0.parquet").write_bytes(b"PAR1 torn PAR1")
    monkeypatch.setattr(session, "spark_session", lambda *_: nullcontext(spark))
    assert main(["bench", "aggregate", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err.strip()
    assert "part-0.parquet cannot be read" in said
    assert "\n" not in said
