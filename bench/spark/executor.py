"""What runs on an executor: a row of the grid becomes rows of results, or one that says what went wrong."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.results import CommunityResult, error_row, rows, schema

if TYPE_CHECKING:
    import pyarrow as pa


def run_rows(
    batches: Iterable[pa.RecordBatch], processes: Path | None = None
) -> Iterator[pa.RecordBatch]:
    """Run each experiment of the batches, which hold them as JSON; see `run_one`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield run_one(Experiment.from_json(text), processes)


def run_one(experiment: Experiment, processes: Path | None = None) -> pa.RecordBatch:
    """The result rows of one experiment; where anything raises, its error row.

    Below `processes`, if given, the rows of each process of real nodes are written.
    """
    from bench import tiers

    began = time.perf_counter()
    try:
        if processes is not None and experiment.tier in tiers.OBSERVED:
            results = _run_watched(experiment, processes)
        else:
            results = tiers.run(experiment)
        return _batch(rows(experiment, results, time.perf_counter() - began))
    except Exception:
        return error_batch(experiment, traceback.format_exc(limit=-4).strip())


def _run_watched(
    experiment: Experiment, processes: Path
) -> list[tuple[Experiment, list[CommunityResult]]]:
    from bench import tiers
    from bench.processes import process_results, write_processes
    from bench.traces import results_of

    observed = tiers.observe(experiment)
    each = [(point, process_results(events)) for point, events in observed]
    write_processes(processes, experiment, each)
    return [(point, results_of(events)) for point, events in observed]


def error_batch(experiment: Experiment, error: str) -> pa.RecordBatch:
    """The row of an experiment that failed."""
    return _batch([error_row(experiment, error)])


def _batch(found: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(found, schema=schema().remove_metadata())
