"""NDlib and EoN on the dissemination that the round simulator is measured on, where they are installed.

At ten and a hundred thousand processes: at a million, their graph alone would take several GiB and a minute
to build, and what they cost for each message only grows.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import time
from collections.abc import Callable
from typing import Any

from bench.micro.measurement import Measurement

SIZES = (10**4, 10**5)


def beside_others(
    rate: Callable[[int], float], loss: float, crashed: float, fanout: Callable[[int], int]
) -> list[Measurement]:
    """How many times faster `rate` is, in messages a second by size; who is not installed is named."""
    found = []
    for size in SIZES:
        graph, ours = None, 0.0
        for package, run in OTHERS.items():
            name = f"{package}, {size:.0e} processes"
            if importlib.util.find_spec(package) is None:
                missing = f"left out: not installed (PyPI's package: {package})"
                found.append(Measurement(name, 0.0, "M messages/s", missing))
                continue
            if graph is None:
                graph, ours = _random_graph(size, crashed, fanout(size)), rate(size)
            theirs = run(graph, loss, fanout(size))
            found += [
                Measurement(name, theirs / 1e6, "M messages/s"),
                Measurement(
                    f"times faster than {package}, {size:.0e}", ours / theirs, "x", "goal: 100"
                ),
            ]
    return found


def _random_graph(size: int, crashed: float, fanout: int) -> Any:
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
