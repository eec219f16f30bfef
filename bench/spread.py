"""One event's way through the communities in each mode as shipped, traced once for the report.

A small emulation a mode, in a setting where the picture is legible; the report only reads what is kept here.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.suites.settings import COMPARED, DEFAULTS, variant
from overlay.errors import CamcastError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from bench.store import ResultStore

TABLE = "spread"
SIZES = (26, 10, 6)
SEED = 7


class SpreadError(CamcastError):
    """An event could not be traced."""


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


def write_spread(spark: SparkSession, store: ResultStore) -> None:
    """Trace an event of each mode on the executors and keep them; nothing is done where that is kept.

    `SpreadError` tells of the first mode that failed, with the experiment that replays it.
    """
    if store.kept(TABLE):
        return
    modes = spark.createDataFrame([(mode,) for mode in COMPARED], "mode string")
    traced = modes.repartition(len(COMPARED), "mode").mapInArrow(_trace_rows, "traced string")
    found = [json.loads(row.traced) for row in traced.collect()]
    for one in found:
        if "error" in one:
            raise SpreadError(f"{one['error']}\n  replay: {experiment(one['mode']).as_json()}")
    store.keep(TABLE, sorted(found, key=lambda one: COMPARED.index(one["mode"])))


def _trace_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        traced = [json.dumps(_trace_or_error(mode)) for mode in batch.column(0).to_pylist()]
        yield pa.record_batch([pa.array(traced, pa.string())], ["traced"])


def _trace_or_error(mode: str) -> dict[str, Any]:
    try:
        return trace(mode)
    except Exception as error:
        return {"mode": mode, "error": "".join(traceback.format_exception_only(error)).strip()}


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
