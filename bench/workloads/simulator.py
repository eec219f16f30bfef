"""Messages a second of the round simulator, beside what the machine and other simulators allow.

One dissemination in one community: everyone reached forwards once to floor(ln N) + 5 others, 90 % are alive,
15 % of the messages are lost. The machine's limit is the same number of reads and writes at random places of
an array of N bytes, with nothing else to do. All times are CPU time, so a busy machine disturbs the ratios
little.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.experiment import Experiment
from bench.simulate import simulate
from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, below
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, left_out, rows_of

LOSS, CRASHED = 0.15, 0.1
LEAST_SECONDS = 1.0


@compiled
def touch_at_random(bytes_: npt.NDArray[np.uint8], times: int, place: np.uint64) -> None:
    """Add 1 at `times` random places."""
    size = np.uint64(bytes_.size)
    for _ in range(times):
        place += GOLDEN
        bytes_[below(place, size)] += np.uint8(1)


def asked(size: int) -> Experiment:
    """The dissemination in a community of this many."""
    named: dict[str, Any] = {"suite": "speed", "figure": "simulator", "tier": "simulate"}
    return Experiment(sizes=(size,), loss=LOSS, failed=CRASHED, **named)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of the fastest call out of LEAST_SECONDS of them, and three at least."""
    work()
    spent: list[float] = []
    while sum(spent) < LEAST_SECONDS or len(spent) < 3:
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    # A clock that counts in ticks may tell nothing of one call.
    return min(spent) or sum(spent) / len(spent)


def limit(size: int) -> float:
    """Random reads and writes a second in an array of `size` bytes."""
    array = np.zeros(size, np.uint8)
    times = max(size, 10**6)
    return times / cpu_seconds(lambda: touch_at_random(array, times, np.uint64(1)))


def rate(size: int) -> float:
    """Messages a second of one dissemination, everything included."""
    experiment = asked(size)
    (found,) = simulate(experiment)
    return (found.messages_inside or 0) / cpu_seconds(lambda: simulate(experiment))


def peak_memory(size: int) -> float:
    """Bytes that a process of its own needs at its peak to simulate this many, Python and numba included."""
    program = (
        "import resource; from bench.workloads.simulator import asked, simulate; "
        f"simulate(asked({size})); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(found.stdout) * (1024 if sys.platform != "darwin" else 1)


# Other simulators: NDlib and EoN at the same dissemination, where they are installed. At a million
# processes their graph alone would take several GiB and a minute to build.


def random_graph(size: int, crashed: float, fanout: int) -> Any:
    """The tables of the live processes as a directed graph of the library that the others use."""
    networkx = importlib.import_module("networkx")
    draw = random.Random(1)
    alive = [draw.random() >= crashed for _ in range(size)]
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(size))
    for process in range(size):
        for step in draw.sample(range(1, size), fanout):
            target = (process + step) % size
            if alive[process] and alive[target]:
                graph.add_edge(process, target)
    return graph


def _rate_of_eon(graph: Any, loss: float, fanout: int) -> float:
    """Messages a second of EoN's discrete-time epidemic with recovery after one round."""
    eon = importlib.import_module("EoN")
    publisher = max(graph, key=graph.out_degree)
    started = time.process_time()
    _, _, _, recovered = eon.basic_discrete_SIR(graph, 1 - loss, initial_infecteds=[publisher])
    seconds = time.process_time() - started
    return float(recovered[-1]) * fanout / seconds


def _rate_of_ndlib(graph: Any, loss: float, fanout: int) -> float:
    """Messages a second of NDlib's epidemic with recovery after one round."""
    epidemics = importlib.import_module("ndlib.models.epidemics")
    configuration = importlib.import_module("ndlib.models.ModelConfig")
    model = epidemics.SIRModel(graph, seed=1)
    config = configuration.Configuration()
    config.add_model_parameter("beta", 1 - loss)
    config.add_model_parameter("gamma", 1.0)
    config.add_model_initial_configuration("Infected", [max(graph, key=graph.out_degree)])
    model.set_initial_status(config)
    started = time.process_time()
    infected = 1
    while infected:
        counts = model.iteration(node_status=False)["node_count"]
        infected = counts[1]
    seconds = time.process_time() - started
    return float(counts[2]) * fanout / seconds


OTHERS: dict[str, Callable[[Any, float, int], float]] = {
    "EoN": _rate_of_eon,
    "ndlib": _rate_of_ndlib,
}
"""By the name of the package, which is also PyPI's."""


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about a minute."""
    for size in options.processes:
        ours, most = rate(size), limit(size)
        settings = {"simulator": "camcast", "processes": size}
        found: Values = {
            "rate": (ours / 1e6, "M messages/s"),
            "limit": (most / 1e6, "M places/s"),
            "share of the limit": (ours / most, "share"),
        }
        if size == max(options.processes):
            found["memory"] = (peak_memory(size) / 2**20, "MiB")
        yield from rows_of(settings, found)
    yield from beside_others(options.others)


def beside_others(sizes: Sequence[int]) -> Iterator[Row]:
    """The others' messages a second, and how many times faster ours is; who is not installed is named."""
    for size in sizes:
        graph, ours = None, 0.0
        for package, measure in OTHERS.items():
            settings: dict[str, Any] = {"simulator": package, "processes": size}
            if importlib.util.find_spec(package) is None:
                yield left_out(settings, f"not installed (PyPI's package: {package})")
                continue
            fanout = asked(size).fanout(size)
            if graph is None:
                graph = random_graph(size, CRASHED, fanout)
                ours = rate(size)
            theirs = measure(graph, LOSS, fanout)
            yield Row(settings, "rate", theirs / 1e6, "M messages/s")
            yield Row(settings, "camcast is faster", ours / theirs, "x")


WORKLOAD = Workload(
    "simulator",
    "Round simulator",
    "Messages a second of the compiled simulator, beside the machine's limit and other ",
    (
        Option(
            "processes",
            [10**4, 10**5, 10**6, 10**7],
            "sizes of the community",
            quick=[10**4, 10**5],
        ),
        Option("others", [10**4, 10**5], "sizes for NDlib and EoN", quick=[10**4]),
    ),
    run,
    (
        RowTable(
            "simulator",
            "One dissemination; processor time",
            {"simulator": "simulator", "processes": "processes"},
            {
                "M messages/s": "{rate:.2f}",
                "limit of the machine": "{limit:.0f} M/s",
                "share of it": "{share of the limit:.2f}",
                "peak memory": "{memory:,.0f} MiB",
                "camcast is faster": "{camcast is faster:,.0f} x",
            },
            "The machine's limit: random reads and writes in an array of as many bytes.",
        ),
    ),
    quick_seconds=25,
)
