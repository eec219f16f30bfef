"""How a report was made: versions, machine, command. Written beside the results when they are made."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bench.aggregates import Aggregates

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


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a reader needs to make the report again."""

    suites: tuple[str, ...]
    command: str
    versions: tuple[tuple[str, str], ...]
    machine: str
    python: str
    seeds: str


def provenance(aggregates: Aggregates, directory: Path) -> Provenance:
    """The provenance of the results in `directory`."""
    suites = tuple(aggregates.suites())
    runs = " && ".join(f"camcast bench run {suite} --out {directory.name}" for suite in suites)
    return Provenance(
        suites,
        f"{runs} && camcast bench report --out {directory.name}",
        tuple((name, _version(name)) for name in PACKAGES),
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        platform.python_version() + f" ({sys.implementation.name})",
        "each experiment's seed is a digest of its fields; camcast bench show SUITE prints them",
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
