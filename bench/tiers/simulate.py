"""The simulated tier: an experiment run by the round simulator, each repetition with tables of its own."""

from __future__ import annotations

from typing import Any

from bench.experiment import Experiment
from bench.results import Result
from bench.simulate import SIMULATED, simulate


def run(experiment: Experiment) -> list[tuple[Experiment, list[Result]]]:
    """Simulate every repetition of each point; the same seed gives the same result on any machine."""
    return [(point, _run(point)) for point in experiment.points()]


def _run(point: Experiment) -> list[Result]:
    repetitions = range(point.repetitions)
    return [result for repetition in repetitions for result in simulate(point, repetition)]


def compile_kernels() -> None:
    """Compile what simulated and replayed events run, and keep it for the processes that come later."""
    from bench.tiers.replay import ReplayedMember, Snapshot, replay

    tiny: dict[str, Any] = {"suite": "", "figure": "", "sizes": (20, 10, 5)}
    for protocol in SIMULATED:
        for mode in ("uniform", "unstructured"):
            run(Experiment(tier="simulate", protocol=protocol, mode=mode, **tiny))
    pair = tuple(ReplayedMember(name, name, 2.0, ("b", "a"), ()) for name in ("a", "b"))
    point = Experiment(tier="replay", mode="structured", replays=1, **tiny | {"sizes": (2,)})
    replay(point, Snapshot((pair,)))
