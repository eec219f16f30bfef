"""One event's way through the communities in each mode as shipped, traced once for the report.

A small emulation a mode, in a setting where the picture is legible; the report only reads what is kept here.
"""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.suites.settings import COMPARED, DEFAULTS, variant
from overlay.errors import CamcastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "spread.json"
SIZES = (26, 10, 6)
SEED = 7


class SpreadError(CamcastError):
    """An event could not be traced, or the file of traced events is damaged."""


def experiment(mode: str) -> Experiment:
    """What is traced: the default parameters, and small enough to see every process."""
    return Experiment(
        suite="spread",
        figure="spread",
        tier="emulate",
        mode=mode,
        sizes=SIZES,
        seed=SEED,
        **DEFAULTS,
        **variant("shipped"),
    )


def write_spread(spark: SparkSession, directory: Path) -> None:
    """Trace an event of each mode on the executors and keep them; nothing is done where that is kept.

    `SpreadError` tells of the first mode that failed, with the experiment that replays it.
    """
    path = directory / FILE
    if path.exists():
        return
    traced = spark.sparkContext.parallelize(COMPARED, len(COMPARED)).map(_trace_or_error).collect()
    for found in traced:
        if "error" in found:
            raise SpreadError(f"{found['error']}\n  replay: {experiment(found['mode']).as_json()}")
    path.write_text(json.dumps(traced) + "\n")


def _trace_or_error(mode: str) -> dict[str, Any]:
    try:
        return trace(mode)
    except Exception as error:
        return {"mode": mode, "error": "".join(traceback.format_exception_only(error)).strip()}


def read_spread(directory: Path) -> list[dict[str, Any]]:
    """What `write_spread` kept; nothing where no emulated suite was run."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text())
    except ValueError:
        raise SpreadError(f"{path} is damaged: remove it and run an emulated suite again") from None
    return found


def trace(mode: str) -> dict[str, Any]:
    """The event of one mode: `had` is a list of [community, process, hops, from whom or null].

    Processes are numbered within the whole; `sizes` are the communities, bottom first, and `missed` how
    many of each the event did not reach.
    """
    from bench.tiers.emulate import run_observed

    asked = experiment(mode)
    _, [[(history, members)]] = run_observed(asked)
    levels = {own.topic: level for level, own in enumerate(members)}
    numbers: dict[str, int] = {}
    had: list[list[int | None]] = [[levels[history.topic], 0, 0, None]]
    numbers[history.publisher] = 0
    for hops, sender, receiver, topic in sorted(history.hops):
        number = numbers.setdefault(receiver, len(numbers))
        had.append([levels[topic], number, hops, numbers.get(sender)])
    missed = [
        len(own.alive - set(history.communities[own.topic].had))
        if own.topic in history.communities
        else len(own.alive)
        for own in members
    ]
    return {
        "mode": mode,
        "sizes": list(asked.sizes),
        "seed": asked.seed,
        "missed": missed,
        "had": had,
    }
