"""What runs on an executor: a row of the grid becomes rows of results, or one that says what went wrong; and
a part of a live network that spans several."""

from __future__ import annotations

import gc
import json
import secrets
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Client, Listener
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.players import Line, Player, play
from bench.results import Result, Rows, error_table, schema, table
from bench.traces import process_results, process_rows
from bench.traces import schema as process_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import BarrierTaskContext

    from bench.suites.grid import Grid


GATHERED = ("model", "simulate")
"""Tiers of tiny experiments, whose results fit the schema by construction."""
ROWS_A_BATCH = 20_000
BATCH_SECONDS = 1.0
"""What tiny experiments gave goes on together when it has so many rows, or has waited for so long."""


def run_rows(
    batches: Iterable[pa.RecordBatch], processes: bool = False
) -> Iterator[pa.RecordBatch]:
    """Run each experiment of the batches, which hold them as JSON in their first column."""
    texts = (text for batch in batches for text in batch.column(0).to_pylist())
    yield from run_all(map(Experiment.from_json, texts), processes)


def run_dealt(
    texts: Sequence[str], tasks: int, processes: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run those of the experiments, given as JSON, that are dealt to the tasks whose numbers come."""
    numbers = (number for batch in batches for number in batch.column(0).to_pylist())
    own = (text for number in numbers for text in texts[number::tasks])
    yield from run_all(map(Experiment.from_json, own), processes)


def made_of_grid(grid: Grid, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The experiments at some places of a grid, as JSON, and their ids."""
    import pyarrow as pa

    for batch in batches:
        made = [grid.at(place) for place in batch.column(0).to_pylist()]
        texts = pa.array([one.as_json() for one in made], pa.string())
        ids = pa.array([one.id for one in made], pa.string())
        yield pa.record_batch([texts, ids], ["experiment", "id"])


def run_all(experiments: Iterable[Experiment], processes: bool = False) -> Iterator[pa.RecordBatch]:
    """Run experiments one after the other; see `run_one`."""
    held: list[pa.Table] = []
    gathered, since = Rows(), time.monotonic()
    for experiment in experiments:
        if not _gather(gathered, experiment, processes):
            held.append(run_one(experiment, processes))
        if len(gathered) + len(held) >= ROWS_A_BATCH or time.monotonic() - since > BATCH_SECONDS:
            yield from _batches([*held, gathered.table()])
            held, gathered, since = [], Rows(), time.monotonic()
    yield from _batches([*held, gathered.table()])
    _keep_modules()


_kept_modules = [0]
"""How many modules there were when they were last looked at."""


def _keep_modules() -> None:
    """Tell the garbage collector that what is imported stays: a worker of Spark collects garbage after every
    task, and would look at all modules each time, for 30 ms."""
    if len(sys.modules) > _kept_modules[0]:
        _kept_modules[0] = len(sys.modules)
        gc.collect()
        gc.freeze()


def _gather(gathered: Rows, experiment: Experiment, processes: bool) -> bool:
    """Run an experiment of a tier whose results always fit the schema; False where it is another's."""
    from bench import tiers

    if processes or experiment.tier not in GATHERED:
        return False
    began = time.perf_counter()
    try:
        results = tiers.run(experiment)
    except Exception:
        return False  # once more by itself, to tell what went wrong
    gathered.add(experiment, results, time.perf_counter() - began)
    return True


def _batches(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    for found in tables:
        if found.num_rows:
            yield from found.replace_schema_metadata(None).combine_chunks().to_batches()


def run_one(experiment: Experiment, processes: bool = False) -> pa.Table:
    """The result rows of one experiment; where anything raises, its error row.

    With `processes` the first row has those of each process of real nodes in a column of that name.
    """
    from bench import tiers

    began = time.perf_counter()
    each: list[dict[str, Any]] = []
    try:
        if processes and experiment.tier in tiers.OBSERVED:
            results, each = _run_watched(experiment)
        else:
            results = tiers.run(experiment)
        found = table(experiment, results, time.perf_counter() - began)
    except Exception:
        found = error_table(experiment, traceback.format_exc(limit=-4).strip())
    return _with_processes(found, each) if processes else found


def result_schema(processes: bool) -> pa.Schema:
    """Of the rows that executors answer with."""
    import pyarrow as pa

    if not processes:
        return schema()
    fields = [field for field in process_schema() if field.name != "experiment_id"]
    return schema().append(pa.field("processes", pa.list_(pa.struct(fields))))


def _with_processes(found: pa.Table, each: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    kind = result_schema(True).field("processes")
    return found.append_column(kind, pa.array([each, *[None] * (found.num_rows - 1)], kind.type))


def _run_watched(
    experiment: Experiment,
) -> tuple[list[tuple[Experiment, list[Result]]], list[dict[str, Any]]]:
    from bench import tiers

    results, observed = tiers.run_observed(experiment)
    return results, process_rows([(point, process_results(events)) for point, events in observed])


# One live network across executors: a barrier stage, each task of which holds some of the nodes.
#
# The first task conducts the experiment as the live tier does (`bench.tiers.live`). It tells the others by
# `allGather` where it is; each connects to it, and holds real nodes that listen at its own executor's
# host. All that the nodes say to each other goes over UDP between the executors' hosts. Orders, and the
# traces at the end, go over one TCP connection for each task, which a secret of this stage opens.

CONNECT_SECONDS = 60.0
"""How long the tasks may take to connect to the first one."""


def run_across(
    experiment: Experiment, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task of a barrier stage; the first gives the rows of the experiment, the others none."""
    from pyspark import BarrierTaskContext

    for _ in batches:
        pass
    context = BarrierTaskContext.get()
    infos = context.getTaskInfos()
    name = infos[context.partitionId()].address
    host = socket.gethostbyname(name.rpartition(":")[0] or name)
    if context.partitionId():
        _hold(json.loads(context.allGather("")[0]), host)
    else:
        found = _conduct(context, experiment, host, len(infos))
        yield from found.replace_schema_metadata(None).combine_chunks().to_batches()
    context.barrier()


def _conduct(
    context: BarrierTaskContext, experiment: Experiment, host: str, tasks: int
) -> pa.Table:
    from bench.tiers.live import hold, run_observed

    began = time.perf_counter()
    key = secrets.token_bytes(32)
    with (
        tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory,
        Listener((host, 0), backlog=tasks, authkey=key) as listener,
    ):
        place = {"address": listener.address, "key": key.hex()}
        context.allGather(json.dumps(place))
        lines: list[Line] = [Player(hold, host, directory)]
        try:
            # A task that is silent would be waited for without end: the listener's own socket gives up.
            listener._listener._socket.settimeout(CONNECT_SECONDS)  # type: ignore[attr-defined]
            lines += [Line(listener.accept(), f"task {number}") for number in range(1, tasks)]
            results, _ = run_observed(experiment, lines, host)
            return table(experiment, results, time.perf_counter() - began)
        except Exception:
            return error_table(experiment, traceback.format_exc(limit=-4).strip())
        finally:
            for line in lines:
                line.kill()


def _hold(place: dict[str, Any], host: str) -> None:
    from bench.tiers.live import hold

    host_and_port = tuple(place["address"])
    pipe = Client(host_and_port, authkey=bytes.fromhex(place["key"]))
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        play(hold, pipe, (host, directory))
