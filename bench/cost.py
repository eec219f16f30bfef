"""How long an experiment will take, roughly: enough to spread rows evenly over tasks.

The constants are seconds of one core measured once; only their ratios matter.
"""

from __future__ import annotations

import math

from bench.experiment import Experiment

SECONDS_PER_SIMULATED_MESSAGE = 2e-8
SECONDS_PER_SIMULATION = 2e-4
SCAMP = 3.0
"""How much longer an event takes whose tables are built as SCAMP builds them."""
SECONDS_PER_JOIN = {
    "unstructured": 5e-3,
    "semi-structured": 2.5e-2,
    "structured": 2.5e-2,
    "hyparview": 2.5e-2,
}
"""Seconds for one emulated node to join."""
SECONDS_PER_NODE_SECOND = {
    "unstructured": 1.5e-4,
    "semi-structured": 2.5e-4,
    "structured": 5e-4,
    "hyparview": 3e-4,
}
"""Seconds for one emulated node that is at rest, for each second of virtual time."""
SECONDS_PER_COPY = {"eager": 1.5e-4, "lazy": 3.5e-4}
"""Seconds for one emulated node, for each event and each of the others that it tells of the event."""
BOOT_SECONDS = 30.0
"""Virtual time before the first event."""
REPAIR_SECONDS = 60.0
"""Virtual time for each crash."""
EVENT_SECONDS = 1.0
"""Virtual time for each event."""
SECONDS_PER_REPLAY = 1.2e-5
"""Seconds for one event, for each hundred processes."""
SECONDS_PER_LIVE_NETWORK = 8.0
SECONDS_PER_LIVE_EVENT = 1.0


def estimated_seconds(experiment: Experiment) -> float:
    """Expected seconds of one core for all repetitions together."""
    events = experiment.repetitions * len(experiment.points())
    if experiment.tier == "model":
        return 1e-4
    if experiment.tier == "simulate":
        messages = sum(n * (math.log(n) + experiment.c + 1) for n in experiment.sizes)
        once = SECONDS_PER_SIMULATION + messages * SECONDS_PER_SIMULATED_MESSAGE
        return once * events * (SCAMP if experiment.mode == "unstructured" else 1.0)
    if experiment.tier == "emulate":
        return _emulated(experiment, events)
    return SECONDS_PER_LIVE_NETWORK + SECONDS_PER_LIVE_EVENT * events


def _emulated(experiment: Experiment, events: int) -> float:
    mode, nodes = experiment.mode, sum(experiment.sizes)
    crashes = sum(share > 0 for share in experiment.failed_series or (experiment.failed,))
    seconds = BOOT_SECONDS + REPAIR_SECONDS * crashes + EVENT_SECONDS * events
    copies = sum(n * (math.log(n) + experiment.c) for n in experiment.sizes) * events
    replayed = sum(len(point.replayed()) for point in experiment.points()) * experiment.replays
    return (
        nodes * SECONDS_PER_JOIN[mode]
        + nodes * seconds * SECONDS_PER_NODE_SECOND[mode]
        + copies * SECONDS_PER_COPY[experiment.dissemination]
        + replayed * SECONDS_PER_REPLAY * nodes / 100
    )
