"""A real standalone master with two workers on loopback, and a run that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.spark.start import java_home
from bench.suites import find_suite
from tests.bench.spark.grids import by_a_plain_loop, stored

START_SECONDS = 120.0

SUITE = """
[[grid]]
tier = "model"
sizes = [[100, 20, 5]]
failed = [0.0, 0.1, 0.2, 0.3]
[[grid]]
tier = "simulate"
sizes = [[100, 20, 5]]
loss = 0.1
failed = [0.0, 0.2]
repetitions = 20
"""


class Daemon:
    """A Spark daemon that was started here and is ended here."""

    def __init__(
        self, directory: Path, name: str, *arguments: str, inside: tuple[str, ...] = ()
    ) -> None:
        """`inside`: the words before the command, as of one that is run in a network namespace."""
        import pyspark

        self._log = directory / f"{name}.log"
        configuration = directory / "conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "log4j2.properties").write_text(LOGGING)
        environment = os.environ | {
            "JAVA_HOME": str(java_home(directory)),
            "SPARK_CONF_DIR": str(configuration),
            "SPARK_LOCAL_IP": arguments[arguments.index("--host") + 1],
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*inside, program, f"org.apache.spark.deploy.{name.split('-')[0]}", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=directory,
            )

    def says(self, pattern: str) -> str:
        """Wait until the daemon's log matches."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.search(pattern, self._log.read_text())
            if found:
                return found.group(1)
            time.sleep(0.2)
        raise AssertionError(f"no {pattern!r} in {self._log}:\n{self._log.read_text()[-2000:]}")

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(60)


A_JOB_FOR_EACH_ROW = """
import sys
from pubsub import cli
from bench.spark import execute
execute.JOB_SECONDS_PER_CORE = 0
sys.exit(cli.main())
"""

LITTLE_PATIENCE = """
import sys
from pubsub import cli
from bench.spark import session
session.WORKER_SECONDS = 2
sys.exit(cli.main())
"""

LOGGING = """rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


@pytest.fixture(params=[2])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A master and two workers, or as many as the test asks for."""
    daemons: list[Daemon] = []
    ports = ("--port", "0", "--webui-port", "0")
    try:
        daemons.append(Daemon(tmp_path, "master.Master", "--host", "127.0.0.1", *ports))
        master = daemons[0].says(r"Starting Spark master at (spark://\S+)")
        for number in range(request.param):
            size = ("--cores", "1", "--memory", "512m", "--work-dir", str(tmp_path / str(number)))
            place = ("--host", f"127.0.0.{number + 2}", *ports)  # each a host of its own
            daemons.append(Daemon(tmp_path, f"worker.Worker-{number}", *place, *size, master))
        for worker in daemons[1:]:
            worker.says(r"Successfully (registered) with master")
        yield master
    finally:
        for daemon in reversed(daemons):
            daemon.end()


def camcast(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pubsub.cli", "bench", *arguments]


LIVE = """
[[grid]]
tier = "live"
mode = "unstructured"
sizes = [[12, 4]]
c = 8
p_sel = 1.0
"""


@pytest.mark.sweep
def test_a_standalone_cluster_gives_the_same_bits_and_holds_one_live_network_across_executors(
    cluster: str, tmp_path: Path
) -> None:
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE + LIVE)
    out = tmp_path / "out"
    command = camcast("run", str(suite), "--master", cluster, "--across", "2", "--out", str(out))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    check_live([row for row in stored(out) if row["tier"] == "live"])
    asked = find_suite(str(suite)).experiments
    repeatable = tuple(one for one in asked if one.tier != "live")
    assert [row for row in stored(out) if row["tier"] != "live"] == by_a_plain_loop(repeatable)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[str]:
    """A master here and two workers, each in a network namespace of its own, on one bridge."""
    tag = f"cc{os.getpid() % 100_000}"
    network = f"10.{os.getpid() % 200 + 20}.77"
    daemons: list[Daemon] = []
    ports = ("--port", "0", "--webui-port", "0")
    try:
        try:
            ip("link", "add", tag, "type", "bridge")
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no network namespaces can be made here")
        ip("addr", "add", f"{network}.1/24", "dev", tag)
        ip("link", "set", tag, "up")
        daemons.append(Daemon(tmp_path, "master.Master", "--host", f"{network}.1", *ports))
        master = daemons[0].says(r"Starting Spark master at (spark://\S+)")
        for number in (2, 3):
            own = f"{tag}n{number}"
            ip("netns", "add", own)
            ip("link", "add", f"{tag}v{number}", "type", "veth", "peer", "name", "e0", "netns", own)
            ip("link", "set", f"{tag}v{number}", "master", tag, "up")
            ip("-n", own, "addr", "add", f"{network}.{number}/24", "dev", "e0")
            for link in ("e0", "lo"):
                ip("-n", own, "link", "set", link, "up")
            place = ("--host", f"{network}.{number}", *ports, "--cores", "1", "--memory", "512m")
            work = ("--work-dir", str(tmp_path / own), master)
            inside = ("ip", "netns", "exec", own)
            daemons.append(
                Daemon(tmp_path, f"worker.Worker-{number}", *place, *work, inside=inside)
            )
        for worker in daemons[1:]:
            worker.says(r"Successfully (registered) with master")
        yield master
    finally:
        for daemon in reversed(daemons):
            daemon.end()
        for number in (2, 3):
            subprocess.run(["ip", "netns", "del", f"{tag}n{number}"], capture_output=True)
        subprocess.run(["ip", "link", "del", tag], capture_output=True)


@pytest.mark.sweep
def test_one_live_network_across_machines(machines: str, tmp_path: Path) -> None:
    """Loopback does not reach from one namespace to the other: what arrives went over the bridge."""
    suite = tmp_path / "live.toml"
    suite.write_text(LIVE)
    out = tmp_path / "out"
    here = machines.removeprefix("spark://").rpartition(":")[0]
    command = camcast("run", str(suite), "--master", machines, "--across", "2", "--out", str(out))
    command += ["--conf", f"spark.driver.host={here}"]
    environment = os.environ | {"SPARK_LOCAL_IP": here}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert ran.returncode == 0, ran.stderr
    check_live(stored(out))


def check_live(rows: list[dict[str, Any]]) -> None:
    assert {row["tier"] for row in rows} == {"live"}
    values = {(row["community"], row["metric"]): row["value"] for row in rows}
    assert [values[level, "reception"] for level in (0, 1)] == [1.0, 1.0]


@pytest.mark.sweep
@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_a_master_without_workers_is_given_up(cluster: str, tmp_path: Path) -> None:
    arguments = ["bench", "run", "quick", "--master", cluster, "--out", str(tmp_path / "out")]
    command = [sys.executable, "-c", LITTLE_PATIENCE, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1
    assert f"the master {cluster} gave no executor within 2 s" in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


@pytest.mark.sweep
def test_a_run_that_is_killed_continues_where_it_stopped(tmp_path: Path) -> None:
    suite = tmp_path / "long.toml"
    failed = [number / 40 for number in range(30)]
    suite.write_text(f'[[grid]]\ntier = "model"\nfailed = {failed}\n')
    out = tmp_path / "out"
    arguments = ["bench", "run", str(suite), "--out", str(out), "--master", "local[2]"]
    command = [sys.executable, "-c", A_JOB_FOR_EACH_ROW, *arguments]
    with (tmp_path / "log").open("w") as log:
        first = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while first.poll() is None and not any((out / "commits").glob("commit=*/*.parquet")):
            time.sleep(0.05)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    done = {row["experiment_id"] for row in stored(out)}
    assert 0 < len(done) < 30
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert stored(out) == by_a_plain_loop(find_suite(str(suite)).experiments)
