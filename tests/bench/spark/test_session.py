"""What Java and the executors are told of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bench.spark
from bench.spark.session import java_environment, parse_conf, spark_session, user_settings
from bench.spark.start import ROOT, SparkError, java_home
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


SUBMITTED = """
import json, sys
from pathlib import Path

from bench.spark.session import spark_session
from pubsub.cli import main

suite, out = sys.argv[1:]
answer = main(["bench", "run", suite, "--out", out, "--conf", "spark.c=3"])
with spark_session(Path(out) / "spark") as spark:
    said = {name: spark.conf.get(name, None) for name in ("spark.a", "spark.b", "spark.master")}
    try:
        spark.read.format("camcast").load().count()  # nobody has registered it
    except Exception as error:
        said["source"] = str(error)
    (Path(out) / "said.json").write_text(json.dumps(said | {"answer": answer}))
"""


@pytest.mark.sweep
def test_spark_submit_its_configuration_and_the_format_that_registers_itself(
    tmp_path: Path,
) -> None:
    import pyspark

    (tmp_path / "program.py").write_text(SUBMITTED)
    (tmp_path / "mine.toml").write_text("[[grid]]\ntier = 'model'\nloss = [0.0, 0.1]\n")
    (tmp_path / "spark-defaults.conf").write_text("spark.a 1\nspark.b 1\n")
    (tmp_path / "log4j2.properties").write_text("rootLogger.level = error\n")
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", "spark.b=2", "--conf", "spark.ui.enabled=false", "program.py"]
    environment = os.environ | {
        "JAVA_HOME": str(java_home(tmp_path)),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # Where a wheel puts `pyspark_camcast` is on Python's path.
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "bench" / "spark"))),
    }
    out = tmp_path / "out"
    ran = subprocess.run(
        [*command, "mine.toml", str(out)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads((out / "said.json").read_text())
    assert "no topic is named" in said.pop("source")
    assert said == {"spark.a": "1", "spark.b": "2", "spark.master": "local[1]", "answer": 0}
