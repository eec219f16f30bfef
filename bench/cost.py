"""How long an experiment will take, roughly: enough to spread rows evenly over tasks.

The constants are seconds of one core measured once; only their ratios matter.
"""

from __future__ import annotations

import math

from bench.experiment import Experiment

SECONDS_PER_SIMULATED_MESSAGE = 2e-8
SECONDS_PER_SIMULATION = 2e-4
SECONDS_PER_NODE_SECOND = {"unstructured": 1.0e-3, "semi-structured": 3.2e-3, "structured": 3.2e-3}
"""Of one emulated node, for each second of virtual time."""
BOOT_SECONDS = 40.0
"""Virtual time before the first event."""
REPAIR_SECONDS = 60.0
"""Virtual time for each crash."""
EVENT_SECONDS = 2.0
"""Virtual time for each event."""
SECONDS_PER_LIVE_NETWORK = 15.0
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
        return sum(experiment.sizes) * virtual * SECONDS_PER_NODE_SECOND[experiment.mode]
    return SECONDS_PER_LIVE_NETWORK + SECONDS_PER_LIVE_EVENT * events
