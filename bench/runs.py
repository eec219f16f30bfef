"""What a run was made on, kept beside its results when it begins.

Results outlive the machine, the commit and the versions that made them; a report made later tells these,
not its own.
"""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.store import ResultStore

TABLE = "runs"
PACKAGES = (
    "camcast",
    "kademlia",
    "asyncio-dgram",
    "msgpack",
    "pyspark",
    "numba",
    "numpy",
    "pyarrow",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of `camcast bench run`."""

    suite: str
    """The suite as it was given: a built-in suite's name, or the path of a TOML file."""
    master: str
    started: str
    """Date and time, UTC."""
    commit: str
    """Of the code's working tree, with a plus sign where it was changed; empty where there is none."""
    machine: str
    python: str
    versions: dict[str, str]

    @property
    def name(self) -> str:
        """The suite's name in the results."""
        return Path(self.suite).stem if self.suite.endswith(".toml") else self.suite


def record_run(store: ResultStore, suite: str) -> None:
    """Add a run that begins now to those of a store."""
    started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    master = store.spark.conf.get("spark.master", "local") or "local"
    run = Run(suite=suite, master=master, started=started, commit=commit_here(), **here())
    store.keep(TABLE, [asdict(run)])


def read_runs(store: ResultStore) -> list[Run]:
    """The runs that were kept, in order; one of another version is left out."""
    names = {field.name for field in fields(Run)}
    return [Run(**row) for row in store.kept(TABLE) if row.keys() == names]


def here() -> dict[str, Any]:
    """Machine, Python and versions of this process."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {_memory()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = f" of {line.partition(':')[2].strip()}"
                break
    except OSError:
        pass
    return f"{os.cpu_count()} cores{model}"


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return "memory unknown"
    return f"{size / 2**30:.0f} GiB of memory"


def commit_here() -> str:
    """The commit of the working tree that this file is in; empty for an installed package."""
    where = Path(__file__).parent.parent
    if not (where / ".git").exists():
        return ""
    try:
        commit = _git(where, "rev-parse", "--short", "HEAD")
        return commit + ("+" if _git(where, "status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(where: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(where), *arguments],
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return made.stdout.strip()
