"""How long an experiment will take, roughly: enough to spread rows evenly over tasks.

The constants are seconds of one core measured once; only their ratios matter.
"""

from __future__ import annotations

import math

from bench.experiment import Experiment

SECONDS_PER_SIMULATED_MESSAGE = 2e-8
SECONDS_PER_SIMULATION = 2e-4
SECONDS_PER_NODE_SECOND = {
    "unstructured": 5e-4,
    "semi-structured": 1.3e-3,
    "structured": 1.5e-3,
    "hyparview": 1e-3,
}
"""Of one emulated node, for each second of virtual time."""
BOOT_SECONDS = 40.0
"""Virtual time before the first event."""
REPAIR_SECONDS = 60.0
"""Virtual time for each crash."""
EVENT_SECONDS = 2.0
"""Virtual time for each event."""
SECONDS_PER_REPLAY = 1.2e-5
"""Of one event, for each hundred processes."""
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
        return once * events
    if experiment.tier == "emulate":
        crashes = sum(share > 0 for share in experiment.failed_series or (experiment.failed,))
        virtual = BOOT_SECONDS + REPAIR_SECONDS * crashes + EVENT_SECONDS * events
        nodes = sum(experiment.sizes)
        replayed = sum(len(point.replayed()) for point in experiment.points()) * experiment.replays
        emulated = nodes * virtual * SECONDS_PER_NODE_SECOND[experiment.mode]
        return emulated + replayed * SECONDS_PER_REPLAY * nodes / 100
    return SECONDS_PER_LIVE_NETWORK + SECONDS_PER_LIVE_EVENT * events
