"""The aggregates of a few rows, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from bench.aggregates import Aggregates
from bench.experiment import Experiment
from bench.intervals import wilson
from bench.results import BATCHES, WHOLE, CommunityResult, table
from bench.store import ResultStore, StoreError
from bench.tiers import run
from pubsub.cli import main
from tests.bench.by_hand import summarise

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


def keep(spark: SparkSession, directory: Path, parts: list[pa.Table]) -> ResultStore:
    store = ResultStore(spark, directory).open()
    for part in parts:
        assert store.append(spark.createDataFrame(part.replace_schema_metadata(None))) == []
    return store


def made() -> pa.Table:
    return table(EXPERIMENT, [(EXPERIMENT, RESULTS)], 1.0)


def formulas() -> pa.Table:
    asked = {"suite": "s", "figure": "formulas", "tier": "model", "protocol": "multicast"}
    certain = Experiment(**asked, sizes=(10, 10), c=40.0)
    likely = Experiment(**asked, sizes=(100, 100, 100), c=2.0)
    return pa.concat_tables(table(own, run(own), 0.0) for own in (certain, likely))


def networks() -> pa.Table:
    parts = []
    for network, reached in enumerate((10, 10, 5, 10, 2, 10)):
        shared = {"figure": "networks", "tier": "emulate", "mode": "structured", "sizes": (10,)}
        asked = replace(EXPERIMENT, network=network, **shared)
        own = [result(repetition, 0, reached, 10) for repetition in range(5)]
        parts.append(table(asked, [(asked, own)], 0.0))
    return pa.concat_tables(parts)


def batches() -> pa.Table:
    asked = replace(EXPERIMENT, figure="batches", repetitions=200, sizes=(10,))
    own = [result(number, 0, 10 if number % 4 else 5, 10) for number in range(200)]
    return table(asked, [(asked, own)], 0.0)


def drawn() -> pa.Table:
    generator = np.random.default_rng(5)
    parts = []
    for network in range(3):
        shared = {"figure": "drawn", "tier": "emulate", "mode": "structured"}
        asked = replace(EXPERIMENT, network=network, **shared)
        events = [
            result(number, community, int(generator.integers(1, size)), size)
            for number in range(9)
            for community, size in enumerate(asked.sizes)
        ]
        parts.append(table(asked, [(asked, events)], 0.0))
    return pa.concat_tables(parts)


def backwards() -> pa.Table:
    """What `made` has, as of a built-in suite, in another order."""
    built_in = replace(EXPERIMENT, suite="quick")
    rows = table(built_in, [(built_in, RESULTS)], 1.0)
    return rows.take(list(reversed(range(len(rows)))))


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """All the tables above, each a figure of its own, and the first one again, backwards."""
    parts = pa.concat_tables([made(), formulas(), networks(), batches(), drawn(), backwards()])
    return keep(spark, tmp_path_factory.mktemp("made"), [parts])


@pytest.fixture
def copied(store: ResultStore, tmp_path: Path) -> ResultStore:
    """A store that may be spoiled."""
    copytree(store.place, tmp_path / "out")
    return ResultStore(store.spark, tmp_path / "out")


@pytest.fixture(scope="module")
def everything(store: ResultStore) -> Aggregates:
    return Aggregates.of(store)


@pytest.fixture(scope="module")
def found(everything: Aggregates) -> dict[tuple[int, str], Any]:
    """Of `RESULTS`, by community and metric."""
    return {(row.community, row.metric): row for row in everything.select(figure="f")}


def test_aggregates_are_those_worked_out_by_hand(found: dict[tuple[int, str], Any]) -> None:
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
    found: dict[tuple[int, str], Any],
) -> None:
    assert found[WHOLE, "reception"].value == pytest.approx((1 + 10 / 14 + 9 / 14 + 1) / 4)
    assert found[WHOLE, "reliability"].value == 0.5
    assert found[WHOLE, "rounds"].value == (6 + 5 + 9 + 4) / 4
    assert found[WHOLE, "messages_inside"].value == (48 + 44 + 28 + 36) / 4


def test_events_that_went_up_and_complete_runs_are_counted(
    found: dict[tuple[int, str], Any],
) -> None:
    assert found[0, "climbing"].interval == wilson(3, 4)
    assert found[WHOLE, "complete_rounds"].value == (6 + 4) / 2
    assert found[WHOLE, "complete_rounds"].count == 2


def test_formulas_have_no_interval_and_a_product_for_all_together(everything: Aggregates) -> None:
    rows = everything.select(figure="formulas")
    reliability = [row for row in rows if row.metric == "reliability"]
    assert all(row.low == row.value == row.high for row in reliability)
    three = {row.community: row.value for row in reliability if row.c == 2.0}
    assert three[WHOLE] == pytest.approx(three[0] ** 3)
    assert not [row for row in rows if row.metric == "climbing"]


def test_events_of_one_network_count_as_one_network(everything: Aggregates) -> None:
    found = {row.metric: row for row in everything.select(figure="networks", community=0)}
    assert found["reliability"].count == 30
    assert found["reliability"].networks == (0, 1, 2, 3, 4, 5)
    assert found["reliability"].sample == (1, 1, 0, 1, 0, 1)
    assert found["reception"].sample == pytest.approx((1, 1, 0.5, 1, 0.2, 1))
    assert found["reception"].high - found["reception"].low > 0.4
    assert found["reception"].p50 == 1.0


def test_simulated_events_are_kept_in_batches(everything: Aggregates) -> None:
    [found] = everything.select(figure="batches", community=0, metric="reliability")
    assert len(found.sample) == BATCHES
    assert (found.count, found.value) == (200, 0.75)
    assert found.interval == wilson(150, 200)


def test_sql_gives_what_is_worked_out_row_by_row(everything: Aggregates) -> None:
    expected = Aggregates(summarise(drawn().to_pylist())).select()
    found = everything.select(figure="drawn")
    assert len(found) == len(expected) == 6  # two metrics of three communities
    for one, other in zip(found, expected, strict=True):
        assert one.setting == other.setting
        assert (one.count, one.networks) == (other.count, other.networks)
        assert one.sample == pytest.approx(other.sample, rel=1e-14)
        assert (one.value, one.p50, one.p99) == pytest.approx(
            (other.value, other.p50, other.p99), rel=1e-14
        )


def test_the_order_of_rows_changes_nothing_and_of_very_many_only_built_in_suites_are_held(
    store: ResultStore, everything: Aggregates, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert everything.suites() == ["quick", "s"]
    one, other = (
        everything.only(lambda row, suite=suite: (row.suite, row.figure) == (suite, "f"))  # type: ignore[misc]
        for suite in ("s", "quick")
    )
    assert [replace(row, suite="s") for row in other.select()] == one.select()
    assert len(one) > 20
    monkeypatch.setattr("bench.aggregates.MOST_EXPERIMENTS", 1)
    assert Aggregates.of(store).suites() == ["quick"]


def damage(store: ResultStore) -> str:
    """Tear one of the files of the results; its name."""
    path = next((Path(store.place) / "results").rglob("*.parquet"))
    path.write_bytes(b"PAR1 torn PAR1")
    (path.parent / f".{path.name}.crc").unlink()
    return path.name


def test_the_command_says_in_one_sentence_which_file_is_damaged(
    copied: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    name = damage(copied)
    assert main(["bench", "aggregate", "--out", copied.place]) == 1
    said = capsys.readouterr().err.strip()
    assert f"{name} cannot be read" in said
    assert "\n" not in said


def test_results_of_another_version_are_refused(
    copied: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    [manifest] = (Path(copied.place) / "commits").rglob("*.parquet")
    other = parquet.read_table(pa.BufferReader(manifest.read_bytes()))
    (manifest.parent / f".{manifest.name}.crc").unlink()
    version = pa.array([999] * len(other), pa.int32())
    parquet.write_table(other.set_column(0, "version", version), manifest)
    with pytest.raises(StoreError, match="holds results of schema 999"):
        copied.open()
    assert main(["bench", "report", "--out", copied.place]) == 1
    assert copied.place in capsys.readouterr().err


def test_two_runs_are_compared(store: ResultStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compare", store.place, store.place]) == 0
    assert "0 changed" in capsys.readouterr().out
