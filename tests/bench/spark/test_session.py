"""What Java and the executors are told of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bench.spark
from bench.spark.session import java_environment, parse_conf, spark_session, user_settings
from bench.spark.start import SparkError
from bench.store import ResultStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("local[2]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://localhost:7077", "127.0.0.1"),
        ("spark://10.0.0.7:7077", None),
        ("spark://localhost:7077,far.example:7077", None),
        ("yarn", None),
        ("k8s://https://far.example:443", None),
    ],
)
def test_only_those_on_this_machine_are_told_to_call_loopback(
    master: str, address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert java_environment(tmp_path, master).get("SPARK_LOCAL_IP") == address


def test_an_address_that_the_user_has_set_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert "SPARK_LOCAL_IP" not in java_environment(tmp_path, "local[2]")


def test_what_the_user_has_set_wins_and_conf_wins_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert user_settings({}) == {}
    assert "SPARK_CONF_DIR" in java_environment(tmp_path, "local[2]")
    (tmp_path / "spark-defaults.conf").write_text(
        "# comment\n\nspark.master   spark://far:7077\nspark.a=1\nspark.b 2 words\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert user_settings({}) == {
        "spark.master": "spark://far:7077",
        "spark.a": "1",
        "spark.b": "2 words",
    }
    assert "SPARK_CONF_DIR" not in java_environment(tmp_path, "local[2]")
    arguments = "--master yarn --conf spark.a=3 --conf 'spark.c=x y' pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    found = user_settings({"spark.b": "4"})
    assert found == {"spark.master": "yarn", "spark.a": "3", "spark.b": "4", "spark.c": "x y"}


def test_conf_is_a_name_and_a_value() -> None:
    assert parse_conf(["spark.a=1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    for text in ("spark.a", "=1"):
        with pytest.raises(SparkError, match="write KEY=VALUE"):
            parse_conf([text])


def test_a_session_of_the_caller_is_used_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    with spark_session(tmp_path, "local[7]") as session:
        assert session is spark
    assert spark.range(3).count() == 3


def test_a_suite_runs_on_the_callers_session(spark: SparkSession, tmp_path: Path) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text("[[grid]]\ntier = 'model'\nsizes = [[100, 10]]\nloss = [0.0, 0.1]\n")
    assert bench.spark.run(str(suite), spark, tmp_path / "out") == []
    assert ResultStore(spark, tmp_path / "out").read().count() > 0
    assert spark.range(3).count() == 3
