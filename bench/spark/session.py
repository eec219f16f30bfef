"""One Spark session: local by default, any master by name, quiet on the terminal.

What Spark and its workers have to say goes to `spark.log` in the working directory given.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.code_archive import code_archive
from bench.spark.errors import SparkError
from bench.spark.java import java_home
from bench.spark.master import LOCAL, check_master, is_local, is_on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKER_SECONDS = 60.0
"""How long a cluster may take to give the first executor: Spark itself would wait for ever."""


@contextmanager
def spark_session(workdir: Path, master: str = LOCAL) -> Iterator[SparkSession]:
    """A session on `master`; stopped at the end of the block, and Java with it.

    A remote master gets the three packages as an archive, so its workers need only the libraries.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkError("the benchmark needs Spark: pip install 'camcast[bench]'") from None
    workdir.mkdir(parents=True, exist_ok=True)
    _silence_query_errors()
    local = is_local(master)
    check_master(master)
    builder = SparkSession.builder.master(master).appName("camcast")
    for name, value in _settings(workdir, local).items():
        builder = builder.config(name, value)
    with _stderr_to(workdir / "spark.log"), _set(java_environment(workdir, master)):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise SparkError(
                f"no Spark session on {master}: {_reason(error)} (see {workdir / 'spark.log'})"
            ) from None
    try:
        if not local:
            _wait_for_a_worker(session, master)
            session.sparkContext.addPyFile(str(code_archive(workdir)))
        yield session
    finally:
        _stop(session)


def _wait_for_a_worker(session: SparkSession, master: str) -> None:
    """`SparkError` when the master has no worker that takes the session."""
    context = session.sparkContext._jsc.sc()
    end = time.monotonic() + WORKER_SECONDS
    while context.getExecutorMemoryStatus().size() < 2:  # the driver is one of them
        if time.monotonic() > end:
            raise SparkError(
                f"the master {master} gave no executor within {WORKER_SECONDS:g} s: "
                "are its workers running, with a free core and 1 GiB of memory?"
            )
        time.sleep(0.2)


def _settings(workdir: Path, local: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": str(workdir / "warehouse"),
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": "2g",
    }
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Half the cost of a Python task; needs the worker on the same machine.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        # Java does little here and not for long: compiled lightly, a session costs half as much.
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    else:
        settings["spark.network.timeout"] = "120s"
        # Java only hands rows to Python and back.
        settings["spark.executor.memory"] = "512m"
    return settings


def java_environment(workdir: Path, master: str) -> dict[str, str]:
    """What Java is started with, beside what is set already; writes Spark's configuration below `workdir`."""
    configuration = workdir / "spark-conf"
    configuration.mkdir(exist_ok=True)
    log = (workdir / "spark.log").resolve()
    (configuration / "log4j2.properties").write_text(_LOGGING.format(log=log))
    found = {
        "JAVA_HOME": str(java_home(workdir)),
        "SPARK_CONF_DIR": str(configuration),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    # A cluster's own Python, where whoever set it up has named it.
    if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        found["PYSPARK_PYTHON"] = sys.executable
    # Executors elsewhere call back to this address.
    if is_on_this_machine(master) and "SPARK_LOCAL_IP" not in os.environ:
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
    return found


@contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables of the block; the next session may need others."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _silence_query_errors() -> None:
    """PySpark prints each failed query as a JSON object; it is raised as an exception anyway."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Point the process's standard error at a file while Java starts; Java inherits it for good."""
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("ab") as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


def _stop(session: SparkSession) -> None:
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None


def _reason(error: Exception) -> str:
    """The first line that is not Py4J's own, which tells only what it called."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (told or [type(error).__name__])[0]


_LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
