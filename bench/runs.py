"""A run of a suite: what it was made on, kept beside its results when it begins; and its rounds.

Results outlive the machine, the commit and the versions that made them; a report made later tells these,
not its own.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, decide
from bench.experiment import Experiment
from bench.intervals import FEWEST
from bench.progress import ProgressLine
from bench.spark.execute import Failure, execute
from bench.spark.executor import GATHERED
from bench.spark.session import in_pool
from bench.store import ResultStore
from bench.suites import Family, Suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    command = ["git", "-C", str(where), "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return made.stdout.strip()


# Networks in rounds: a suite's first look, then more of those families that undecided claims need. A claim
# that is undecided names the figures, variants and modes that it needs more networks of; these get as many
# as the next look needs (bench.intervals), until their budget is spent. The intervals hold over all looks
# together, so to stop when a claim is decided does not spoil its verdict.
#
# A family is looked at when all of its networks are there, by its own rows of real nodes alone, while those
# of other families are under way: so no core waits for a look, and what is asked for does not depend on
# which family ended first. When all have ended, all are looked at together.

LOOK_SECONDS = 90.0
"""From one look while rows are running to the next: they are for whoever is waiting, and take about 5 s of
processor time each."""
POOL = "looks"
"""Spark's pool of them: they do not wait until no row is waiting."""


class _Rounds:
    """The claims by what is committed, told to the line of progress; and the networks that they ask for."""

    def __init__(self, suite: Suite, store: ResultStore, line: ProgressLine) -> None:
        self._families = suite.families
        self._store = store
        self._line = line
        self._last = time.monotonic()
        self._networks: dict[tuple[int, str], int] = {}
        """By family and mode, how many networks were asked for."""
        self._fresh: dict[int, set[str]] = {}
        """By family, the ids of its experiments, where it has not been looked at since they were asked
        for."""
        self._fixed = {one.id for one in suite.fixed if one.tier in GATHERED}
        self._is_fixed_read = False
        self.seen: Aggregates | None = None
        self.experiments = list(suite.experiments)
        """All that were asked for."""
        line.decided(0, len(CLAIMS))
        for index, family in enumerate(self._families):
            self._asked(index, family.between(0, FEWEST))

    def _asked(self, index: int, experiments: Sequence[Experiment]) -> None:
        self._fresh.setdefault(index, set()).update(one.id for one in experiments)
        for one in experiments:
            known = self._networks.get((index, one.mode), 0)
            self._networks[index, one.mode] = max(known, one.network + 1)

    def growing(self) -> list[Experiment]:
        """The first networks of the families whose budget is larger: their looks are waited for."""
        return [
            one
            for family in self._families
            if family.next_look(FEWEST) > FEWEST
            for one in family.between(0, FEWEST)
        ]

    def meanwhile(self, left: Collection[str]) -> list[Experiment]:
        """What is to be run beside that which is `left`."""
        has_fixed = self._fixed.isdisjoint(left)
        ended = [index for index, own in self._fresh.items() if own.isdisjoint(left)]
        is_due = has_fixed and any(map(self._can_grow, ended))
        # Half of the claims are of formulas and simulations, which end first: that is told at once.
        is_first = has_fixed and not self._is_fixed_read
        is_late = time.monotonic() - self._last >= LOOK_SECONDS
        if not left or not (is_due or is_first or is_late):
            return []
        with in_pool(self._store.spark, POOL):
            self._look(has_fixed)
        return self._more_of(ended) if is_due else []

    def at_the_end(self, has_failed: bool) -> bool:
        """Whether there is more to be run when nothing is left; what failed is then run again, too."""
        self._look(not has_failed)
        return bool(self._more_of(list(self._fresh)) or self._more_of_all())

    def _look(self, has_fixed: bool) -> None:
        """Read what is committed, and tell how many claims it decides; `has_fixed`: the rows of formulas and
        simulations are all there, and need not be read again."""
        if self._store.is_empty:
            return
        self.seen = Aggregates.of(self._store, self.seen if self._is_fixed_read else None)
        self._is_fixed_read = has_fixed
        found = decide(CLAIMS, self.seen)
        self._line.decided(sum(one.verdict.is_decided for one in found), len(found))
        self._last = time.monotonic()

    def _can_grow(self, index: int) -> bool:
        family = self._families[index]
        known = [number for (own, _), number in self._networks.items() if own == index]
        return any(family.next_look(number) > number for number in known)

    def _more_of(self, ended: Sequence[int]) -> list[Experiment]:
        """What each of these families needs, by its own rows."""
        found = []
        for index in ended:
            del self._fresh[index]
            found += self._more([index], self._seen_of(self._families[index]))
        return found

    def _more_of_all(self) -> list[Experiment]:
        return self._more(range(len(self._families)), self.seen)

    def _seen_of(self, family: Family) -> Aggregates | None:
        return self.seen and self.seen.only(
            lambda row: (
                not row.is_of_networks
                or (row.figure == family.figure and row.variant in family.variants)
            )
        )

    def _more(self, families: Iterable[int], seen: Aggregates | None) -> list[Experiment]:
        """The networks up to the next look of some families, where claims are undecided by what was seen."""
        if seen is None:
            return []
        verdicts = [claim.evidence(seen) for claim in CLAIMS]
        asked = [want for verdict in verdicts for want in verdict.wants.items()]
        found: list[Experiment] = []
        for index in families:
            family = self._families[index]
            own: list[Experiment] = []
            for mode in family.wanted(asked):
                known = self._networks[index, mode]
                own += family.between(known, family.next_look(known), mode)
            if own:
                self._asked(index, own)
                self.experiments += own
                found += own
        return found


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
    if not suite.families:
        return run(suite.experiments, grids=suite.grids), None
    rounds = _Rounds(suite, store, line)
    run = partial(run, first=rounds.growing(), more=rounds.meanwhile)
    failures = run(rounds.experiments, grids=suite.grids)
    while rounds.at_the_end(bool(failures)):
        failures += run(rounds.experiments)
    return failures, rounds.seen
