"""Messages a second of the round simulator, beside what the machine and other simulators allow.

One dissemination in one community: everyone reached forwards once to floor(ln N) + 5 others, 90 % are
alive, 15 % of the messages are lost. The machine's limit is the same number of reads and writes at
random places of an array of N bytes, with nothing else to do. NDlib and EoN are measured on the same
dissemination where they are installed; nothing here depends on them. All times are CPU time, so a busy
machine disturbs the ratios little.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.micro.measurement import Measurement
from bench.simulate import SimulationSettings, simulate, simulate_together
from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, below

SIZES = (10**4, 10**5, 10**6, 10**7)
SIZES_TOGETHER = (10**4, 10**5, 10**6)
SIZE_OF_OTHERS = 10**5
LOSS, CRASHED = 0.15, 0.1
LEAST_SECONDS = 1.0


@compiled
def touch_at_random(bytes_: npt.NDArray[np.uint8], times: int, place: np.uint64) -> None:
    """Add 1 at `times` random places."""
    size = np.uint64(bytes_.size)
    for _ in range(times):
        place += GOLDEN
        bytes_[below(place, size)] += np.uint8(1)


def settings(size: int, seed: int = 1) -> SimulationSettings:
    return SimulationSettings(community_sizes=(size,), loss=LOSS, failed=CRASHED, seed=seed)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of the fastest call out of LEAST_SECONDS of them, and three at least."""
    work()
    spent: list[float] = []
    while sum(spent) < LEAST_SECONDS or len(spent) < 3:
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def limit(size: int) -> float:
    """Random reads and writes a second in an array of `size` bytes."""
    array = np.zeros(size, np.uint8)
    times = max(size, 10**6)
    return times / cpu_seconds(lambda: touch_at_random(array, times, np.uint64(1)))


def rate(size: int) -> float:
    """Messages a second of one dissemination, everything included."""
    messages = simulate(settings(size)).messages
    return messages / cpu_seconds(lambda: simulate(settings(size)))


def rate_together(size: int) -> float:
    """Messages a second of 64 disseminations in one pass."""
    simulate_together(settings(1000), 64)
    started = time.process_time()
    results = simulate_together(settings(size), 64)
    seconds = time.process_time() - started
    return sum(result.messages for result in results) / seconds


def peak_memory(size: int) -> float:
    """Bytes that a process of its own needs at its peak to simulate so many, Python and numba included."""
    program = (
        "import resource; from bench.micro.simulator import settings, simulate; "
        f"simulate(settings({size})); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(found.stdout) * (1024 if sys.platform != "darwin" else 1)


def random_graph(size: int) -> Any:
    """The tables of the live processes as a directed graph of the library that the others use."""
    networkx = importlib.import_module("networkx")
    fanout = math.floor(math.log(size)) + 5
    draw = random.Random(1)
    alive = [draw.random() >= CRASHED for _ in range(size)]
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(size))
    for process in range(size):
        for step in draw.sample(range(1, size), fanout):
            target = (process + step) % size
            if alive[process] and alive[target]:
                graph.add_edge(process, target)
    return graph


def rate_of_eon(graph: Any) -> float:
    """Messages a second of EoN's discrete-time epidemic with recovery after one round."""
    eon = importlib.import_module("EoN")
    publisher = max(graph, key=graph.out_degree)
    started = time.process_time()
    _, _, _, recovered = eon.basic_discrete_SIR(graph, 1 - LOSS, initial_infecteds=[publisher])
    seconds = time.process_time() - started
    return _messages(graph, float(recovered[-1])) / seconds


def rate_of_ndlib(graph: Any) -> float:
    """Messages a second of NDlib's epidemic with recovery after one round."""
    epidemics = importlib.import_module("ndlib.models.epidemics")
    configuration = importlib.import_module("ndlib.models.ModelConfig")
    model = epidemics.SIRModel(graph, seed=1)
    config = configuration.Configuration()
    config.add_model_parameter("beta", 1 - LOSS)
    config.add_model_parameter("gamma", 1.0)
    config.add_model_initial_configuration("Infected", [max(graph, key=graph.out_degree)])
    model.set_initial_status(config)
    started = time.process_time()
    infected = 1
    while infected:
        counts = model.iteration(node_status=False)["node_count"]
        infected = counts[1]
    seconds = time.process_time() - started
    return _messages(graph, counts[2]) / seconds


def _messages(graph: Any, reached: float) -> float:
    size = graph.number_of_nodes()
    return reached * (math.floor(math.log(size)) + 5)


def beside_others() -> list[Measurement]:
    """The others that are installed, and how many times faster this is."""
    others = {"EoN": rate_of_eon, "ndlib": rate_of_ndlib}
    installed = {name: run for name, run in others.items() if importlib.util.find_spec(name)}
    if not installed:
        return []
    graph, ours = random_graph(SIZE_OF_OTHERS), rate(SIZE_OF_OTHERS)
    found = []
    for name, run in installed.items():
        theirs = run(graph)
        found += [
            Measurement(f"{name}, {SIZE_OF_OTHERS:.0e} processes", theirs / 1e6, "M messages/s"),
            Measurement(f"times faster than {name}", ours / theirs, "x", "goal: 100"),
        ]
    return found


def measure() -> list[Measurement]:
    """Takes about a minute."""
    found = []
    for size in SIZES:
        ours, most = rate(size), limit(size)
        beside = f"random read-modify-write limit {most / 1e6:.0f} M/s"
        found += [
            Measurement(f"simulated, {size:.0e} processes", ours / 1e6, "M messages/s", beside),
            Measurement(f"share of the limit, {size:.0e}", ours / most, "", "goal: 1/3"),
        ]
    for size in SIZES_TOGETHER:
        together = rate_together(size)
        name = f"simulated 64 at once, {size:.0e} processes"
        found.append(Measurement(name, together / 1e6, "M messages/s", "summed over repetitions"))
    memory = peak_memory(SIZES[-1])
    found.append(Measurement(f"peak memory, {SIZES[-1]:.0e} processes", memory / 2**20, "MiB"))
    return found + beside_others()


if __name__ == "__main__":
    for line in measure():
        print(f"{line.name:55} {line.value:12.2f} {line.unit:14} {line.note}")
