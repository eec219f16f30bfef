"""One live network across executors: a barrier stage, each task of which holds some of the nodes.

The first task conducts the experiment as the live tier does (`bench.tiers.live`). It tells the others by
`allGather` where it is; each connects to it, and holds real nodes that listen at its own executor's
host. All that the nodes say to each other goes over UDP between the executors' hosts. Orders, and the
traces at the end, go over one TCP connection for each task, which a secret of this stage opens.
"""

from __future__ import annotations

import json
import secrets
import socket
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Client, Listener
from typing import TYPE_CHECKING, Any

from bench.experiment import Experiment
from bench.players import Line, Player, play
from bench.results import error_table, table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import BarrierTaskContext

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
    from bench.populations.live import hold
    from bench.tiers.live import run_observed

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
    from bench.populations.live import hold

    host_and_port = tuple(place["address"])
    pipe = Client(host_and_port, authkey=bytes.fromhex(place["key"]))
    with tempfile.TemporaryDirectory(prefix="camcast-traces-") as directory:
        play(hold, pipe, (host, directory))
