"""What runs on an executor: a row of the grid becomes rows of results, or one that says what went wrong."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.results import error_row, rows, schema

if TYPE_CHECKING:
    import pyarrow as pa


def run_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run each experiment of the batches, which hold them as JSON."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield run_one(Experiment.from_json(text))


def run_one(experiment: Experiment) -> pa.RecordBatch:
    """The result rows of one experiment; where anything raises, its error row."""
    from bench import tiers

    began = time.perf_counter()
    try:
        return _batch(rows(experiment, tiers.run(experiment), time.perf_counter() - began))
    except Exception:
        return error_batch(experiment, traceback.format_exc(limit=-4).strip())


def error_batch(experiment: Experiment, error: str) -> pa.RecordBatch:
    """The row of an experiment that failed."""
    return _batch([error_row(experiment, error)])


def _batch(found: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(found, schema=schema().remove_metadata())
