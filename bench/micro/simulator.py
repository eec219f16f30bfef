"""Messages a second of the round simulator, beside what the machine and other simulators allow.

One dissemination in one community: everyone reached forwards once to floor(ln N) + 5 others, 90 % are
alive, 15 % of the messages are lost. The machine's limit is the same number of reads and writes at
random places of an array of N bytes, with nothing else to do. All times are CPU time, so a busy machine
disturbs the ratios little.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bench.micro.measurement import Measurement
from bench.micro.other_simulators import beside_others
from bench.simulate import SimulationSettings, simulate
from bench.simulate.compiled import compiled
from bench.simulate.randomness import GOLDEN, below

SIZES = (10**4, 10**5, 10**6, 10**7)
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
    memory = peak_memory(SIZES[-1])
    found.append(Measurement(f"peak memory, {SIZES[-1]:.0e} processes", memory / 2**20, "MiB"))
    return found + beside_others(rate, LOSS, CRASHED, lambda size: settings(size).fanout(size))
