"""One Spark session: local by default, any master by name, quiet on the terminal.

The user's configuration wins: `--conf`, what spark-submit was told, `PYSPARK_SUBMIT_ARGS`, and the
`spark-defaults.conf` of `SPARK_CONF_DIR` or of Spark's own directory. What the benchmark needs is set only
where none of them sets it. What Spark and its workers have to say goes to `spark.log` in the working
directory given, unless the user has a directory of configuration, which then says where.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bench.spark.start import (
    LOCAL,
    SparkError,
    check_master,
    code_archive,
    is_local,
    is_on_this_machine,
    java_home,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = "spark.sql.shuffle.partitions"
USUAL_PARTS = "8"
"""Into how many parts a shuffle cuts rows: a benchmark has few."""
ROWS_A_PART = 1_000_000
"""Rows of a part of a large shuffle."""
MEMORY = "1g"
"""Of Java, which does not hold rows: what does not fit goes to the disk."""
CONNECT_PORT = "15002"
"""Of a Spark Connect server whose port is not named."""
CONNECT_SECONDS = 10.0
"""How long a Spark Connect server may take to accept a connection."""
WORKER_SECONDS = 60.0
"""How long a cluster may take to give the first executor: Spark itself would wait for ever."""


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Where a command's Spark runs, and with which configuration."""
    parser.add_argument(
        "--master", help=f"a Spark master (default: what Spark's configuration says, or {LOCAL})"
    )
    parser.add_argument(
        "--remote", metavar="sc://HOST:PORT", help="a Spark Connect server in place of a master"
    )
    parser.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of Spark, such as spark.executor.memory=4g; repeat it for more",
    )


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """The settings of `--conf`; `SparkError` for what is not KEY=VALUE."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SparkError(f"--conf {text!r}: write KEY=VALUE, as in spark.executor.memory=4g")
        found[name.strip()] = value.strip()
    return found


def user_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """What the user has set, from the weakest place to the strongest: files, submit arguments, `--conf`."""
    found = _defaults_file()
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for option, value in pairwise(words):
        name, _, text = value.partition("=")
        if option in ("--conf", "-c"):
            found[name] = text
        elif option == "--master":
            found["spark.master"] = value
    if (
        "PYSPARK_GATEWAY_PORT" in os.environ
    ):  # spark-submit has started this process, and Java with it
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        found |= dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    return found | dict(conf)


def _user_directory() -> Path | None:
    """The directory of Spark's configuration that the user has; None where there is none."""
    named = os.environ.get("SPARK_CONF_DIR")
    if named:
        return Path(named)
    home = os.environ.get("SPARK_HOME")
    if home and (Path(home) / "conf" / "spark-defaults.conf").exists():
        return Path(home) / "conf"
    return None


def _defaults_file() -> dict[str, str]:
    """The settings of `spark-defaults.conf`: a name, blanks or an equals sign, a value."""
    directory = _user_directory()
    path = directory / "spark-defaults.conf" if directory else None
    if path is None or not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    found = (re.match(r"([^\s=]+)\s*[=\s]\s*(.*)", line) for line in lines if line[:1] != "#")
    return {one.group(1): one.group(2).strip() for one in found if one}


def session_of(
    arguments: argparse.Namespace,
    workdir: Path | None = None,
    is_long: bool = False,
    memory: str = MEMORY,
) -> AbstractContextManager[SparkSession]:
    """The session that a command's options ask for; `is_long` and `memory` as `spark_session` has them."""
    if arguments.remote and arguments.master:
        raise SparkError("--master and --remote are two places to run: name one of them")
    conf = parse_conf(arguments.conf)
    if arguments.remote:
        return connect_session(arguments.remote, conf)
    return spark_session(workdir, arguments.master, conf, is_long, memory)


@contextmanager
def connect_session(remote: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session of a Spark Connect server, with the three packages for its workers; ended with the block."""
    if not remote.startswith("sc://"):
        raise SparkError(f"{remote} is not a Spark Connect server: write sc://HOST:PORT")
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        builder = ConnectSession.builder.remote(remote)
    except ImportError as error:
        raise SparkError(
            f"Spark Connect needs more packages: pip install 'camcast[connect]' ({error})"
        ) from None
    for name, value in conf.items():
        builder = builder.config(name, value)
    _check_server(remote)
    _silence_query_errors()
    try:
        session: Any = builder.create()
    except Exception as error:
        raise SparkError(f"no Spark session at {remote}: {_reason(error)}") from None
    with tempfile.TemporaryDirectory(prefix="camcast-connect-") as directory:
        session.addArtifacts(str(code_archive(Path(directory))), pyfile=True)
    try:
        with _set({"SPARK_CONNECT_MODE_ENABLED": "1"}):  # functions of columns ask for it
            yield session
    finally:
        session.stop()


def _check_server(remote: str) -> None:
    """`SparkError` when nobody listens there: the client itself would try for ten minutes."""
    host, _, port = remote.removeprefix("sc://").partition("/")[0].rpartition(":")
    if not host:
        host, port = port, CONNECT_PORT
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError):
        raise SparkError(
            f"the Spark Connect server {remote} does not answer: is it running, and reachable from here?"
        ) from None


def cut_for(spark: SparkSession, rows: int) -> None:
    """Cut what is shuffled from now on into parts of `ROWS_A_PART`, where the user has set no number."""
    if spark.conf.get(PARTS) == USUAL_PARTS:
        spark.conf.set(PARTS, str(max(int(USUAL_PARTS), min(rows // ROWS_A_PART, 1000))))


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is of Spark Connect: without a SparkContext and Java in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def in_pool(spark: SparkSession, name: str) -> Iterator[None]:
    """What this thread asks of Spark in the block does not wait for the tasks of other threads' jobs.

    Through Spark Connect it does: there is no way to say so.
    """
    if is_connect(spark):
        yield
        return
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


@contextmanager
def spark_session(
    workdir: Path | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = MappingProxyType({}),
    is_long: bool = False,
    memory: str = MEMORY,
) -> Iterator[SparkSession]:
    """A session on `master`; stopped at the end of the block, and Java with it.

    A remote master gets the three packages as an archive, so its workers need only the libraries. `conf`: of
    Spark, over everything else. `is_long`: Java itself has minutes of work, and is compiled well for it;
    `memory`: of its heap.
    Without `workdir` Spark's files are in a directory that goes with the block.
    Where this process has a session already, that one is used as it is, and is not stopped.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkError("the benchmark needs Spark: pip install 'camcast[bench]'") from None
    with ExitStack() as stack:
        if workdir is None:
            made = tempfile.TemporaryDirectory(prefix="camcast-spark-", ignore_cleanup_errors=True)
            workdir = Path(stack.enter_context(made))
        workdir.mkdir(parents=True, exist_ok=True)
        _silence_query_errors()
        running = SparkSession.getActiveSession()
        if running is not None:  # the caller's, as a notebook's or that of spark-submit's program
            _ship_code(running, workdir)
            yield running
            return
        session = _start(workdir, master, user_settings(conf), is_long, memory)
        stack.callback(_stop, session)
        _ship_code(session, workdir)
        yield session


def _start(
    workdir: Path, master: str | None, given: Mapping[str, str], is_long: bool, memory: str
) -> SparkSession:
    from pyspark.sql import SparkSession

    master = master or given.get("spark.master", LOCAL)
    local = is_local(master)
    check_master(master)
    builder = SparkSession.builder.master(master)
    needed = {"spark.app.name": "camcast"} | _settings(workdir, local, is_long, memory)
    for name, value in (needed | dict(given) | {"spark.master": master}).items():
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
    except BaseException:
        _stop(session)
        raise
    return session


def _ship_code(session: SparkSession, workdir: Path) -> None:
    """Executors elsewhere get the three packages."""
    context = session.sparkContext
    if not is_local(context.master or LOCAL):
        context.addPyFile(str(code_archive(workdir)))


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


def _settings(workdir: Path, local: bool, is_long: bool, memory: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        PARTS: USUAL_PARTS,
        "spark.sql.warehouse.dir": str(workdir / "warehouse"),
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": memory,
        "spark.scheduler.mode": "FAIR",
    }
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # A machine that sleeps, or stops this process for minutes, must not end the run: nobody is lost.
        settings["spark.network.timeout"] = "86400s"
        # Half the cost of a Python task; needs the worker on the same machine.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        # Java mostly does little and not for long: compiled lightly, a session costs half as much.
        light = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC" if is_long else light
    else:
        settings["spark.network.timeout"] = "120s"
        # Java only hands rows to Python and back.
        settings["spark.executor.memory"] = "512m"
    return settings


def java_environment(workdir: Path, master: str) -> dict[str, str]:
    """What Java is started with, beside what is set already; writes Spark's configuration below `workdir`,
    where the user has none."""
    found = {"JAVA_HOME": str(java_home(workdir)), "PYSPARK_DRIVER_PYTHON": sys.executable}
    if _user_directory() is None:
        configuration = workdir / "spark-conf"
        configuration.mkdir(exist_ok=True)
        log = (workdir / "spark.log").resolve()
        (configuration / "log4j2.properties").write_text(_LOGGING.format(log=log))
        found["SPARK_CONF_DIR"] = str(configuration)
    # A cluster's own Python, where the cluster's administrator has named it.
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
    if gateway is not None and gateway.proc is not None:  # spark-submit's Java goes on
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
