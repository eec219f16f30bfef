"""A run of a suite: what it was made on, kept beside its results when it begins; and its rounds.

Results outlive the machine, the commit and the versions that made them; a report made later tells these,
not its own.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, Decided, decide
from bench.claims.claim import Place
from bench.intervals import FEWEST
from bench.progress import ProgressLine
from bench.spark.execute import Failure, execute
from bench.spark.session import in_pool
from bench.store import ResultStore
from bench.suites import Family, Suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


# Networks in rounds: a suite's first look, then more of those families that undecided claims need. A claim
# that is undecided names the figures, variants and modes that it needs more networks of; these get as many
# as the next look needs (bench.intervals), until their budget is spent. The intervals hold over all looks
# together, so to stop when a claim is decided does not spoil its verdict.

LOOK_SECONDS = 90.0
"""From one look while rows are running to the next: they are for whoever is waiting, and take about 5 s of
processor time each."""
POOL = "looks"
"""Spark's pool of them: they do not wait until no row is waiting."""


class _Looks:
    """The claims by what is committed, told to the line of progress."""

    def __init__(self, store: ResultStore, line: ProgressLine) -> None:
        self._store = store
        self._line = line
        self._last = time.monotonic()
        self.seen: Aggregates | None = None
        line.decided(0, len(CLAIMS))

    def decide(self, *, again: bool) -> list[Decided]:
        """A verdict for each claim; `again`: rows of formulas and simulations are read again, too."""
        self.seen = Aggregates.of(self._store, None if again else self.seen)
        found = decide(CLAIMS, self.seen)
        self._line.decided(sum(one.verdict.is_decided for one in found), len(found))
        self._last = time.monotonic()
        return found

    def meanwhile(self) -> None:
        """A look while rows are running, if the last one is a while ago."""
        if time.monotonic() - self._last >= LOOK_SECONDS:
            with in_pool(self._store.spark, POOL):
                self.decide(again=True)


def run_rounds(
    spark: SparkSession,
    suite: Suite,
    store: ResultStore,
    line: ProgressLine,
    *,
    processes: bool = False,
    across: int = 1,
) -> tuple[list[Failure], Aggregates | None]:
    """Run a suite to its end, live networks on `across` executors.

    The rows that failed, and the aggregates of the last look, if there was one.
    """
    run = partial(execute, spark, store=store, report=line, processes=processes, across=across)
    experiments = list(suite.experiments)
    if not suite.families:
        return run(experiments, grids=suite.grids), None
    looks = _Looks(store, line)
    run = partial(run, committed=looks.meanwhile)
    failures = run(experiments, grids=suite.grids)
    there: dict[tuple[int, str], int] = {}
    again = True
    while not store.is_empty:
        # Rows of formulas and simulations are there from the first round, or failed and are run again.
        decided = looks.decide(again=again)
        again = bool(failures)
        asked = [want for one in decided for want in one.verdict.wants.items()]
        more = _further(suite.families, there, asked)
        if not more:
            break
        for (index, mode), look in more.items():
            family, began = suite.families[index], there.get((index, mode), FEWEST)
            experiments += family.between(began, look, mode)
            there[index, mode] = look
        failures += run(experiments)
    return failures, looks.seen


def _further(
    families: tuple[Family, ...],
    there: dict[tuple[int, str], int],
    asked: list[tuple[Place, int]],
) -> dict[tuple[int, str], int]:
    """By family and mode, how many networks the next look needs, where an undecided claim needs that."""
    found = {}
    for index, family in enumerate(families):
        for mode in family.wanted(asked):
            known = there.get((index, mode), FEWEST)
            look = family.next_look(known)
            if look > known:
                found[index, mode] = look
    return found
