"""A run through a Spark Connect server, and what is said where there is none."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.spark.start import java_home
from bench.suites import find_suite
from pubsub.cli import main
from tests.bench.spark.grids import by_a_plain_loop, stored
from tests.bench.spark.test_cluster import LOGGING, START_SECONDS, SUITE

pytest.importorskip("grpc")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server of its own, on a port that it chooses."""
    import pyspark

    (tmp_path / "log4j2.properties").write_text(LOGGING)
    environment = os.environ | {
        "JAVA_HOME": str(java_home(tmp_path)),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(program), "--master", "local[2]", "--driver-memory", "1g"]
    for setting in ("connect.grpc.binding.port=0", "ui.enabled=false", "sql.shuffle.partitions=2"):
        command += ["--conf", f"spark.{setting}"]
    command += [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
    with (tmp_path / "server.log").open("w") as log:
        running = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
    try:
        deadline = time.monotonic() + START_SECONDS
        port = None
        while port is None:
            text = (tmp_path / "server.log").read_text()
            assert running.poll() is None, text[-2000:]
            assert time.monotonic() < deadline, text[-2000:]
            port = re.search(r"Spark Connect server started at: \S*:(\d+)", text)
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port.group(1)}"
    finally:
        running.terminate()
        running.wait(60)


@pytest.mark.sweep
def test_a_suite_runs_through_spark_connect(server: str, tmp_path: Path) -> None:
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pubsub.cli", "bench", "run", str(suite), "--report"]
    command += ["--remote", server, "--out", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert stored(out) == by_a_plain_loop(find_suite(str(suite)).experiments)
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--remote", "host:15002"], "host:15002 is not a Spark Connect server"),
        (["--remote", "sc://h", "--master", "local[2]"], "name one of them"),
    ],
)
def test_what_is_not_a_server_is_told(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "run", "quick", "--out", str(tmp_path), *arguments]) == 1
    assert told in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # held and not listening: nobody else can answer there
        remote = f"sc://127.0.0.1:{held.getsockname()[1]}"
        assert main(["bench", "run", "quick", "--out", str(tmp_path), "--remote", remote]) == 1
    said = capsys.readouterr().err.strip()
    assert f"the Spark Connect server {remote} does not answer" in said
    assert "\n" not in said
