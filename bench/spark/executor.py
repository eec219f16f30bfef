"""What runs on an executor: a row of the grid becomes rows of results, or one that says what went wrong."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.experiment import Experiment
from bench.results import Result, error_table, table

if TYPE_CHECKING:
    import pyarrow as pa


def run_rows(
    batches: Iterable[pa.RecordBatch], processes: Path | None = None
) -> Iterator[pa.RecordBatch]:
    """Run each experiment of the batches, which hold them as JSON; see `run_one`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            found = run_one(Experiment.from_json(text), processes)
            yield from found.replace_schema_metadata(None).combine_chunks().to_batches()


def run_one(experiment: Experiment, processes: Path | None = None) -> pa.Table:
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
        return table(experiment, results, time.perf_counter() - began)
    except Exception:
        return error_table(experiment, traceback.format_exc(limit=-4).strip())


def _run_watched(experiment: Experiment, processes: Path) -> list[tuple[Experiment, list[Result]]]:
    from bench import tiers
    from bench.processes import process_results, write_processes

    results, observed = tiers.run_observed(experiment)
    each = [(point, process_results(events)) for point, events in observed]
    write_processes(processes, experiment, each)
    return results
