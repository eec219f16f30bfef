"""How long an experiment will take, roughly: enough to spread rows evenly over tasks.

The constants are seconds of one core measured once; only their ratios matter.
"""

from __future__ import annotations

import math

from bench.experiment import Experiment

SECONDS_PER_SIMULATED_MESSAGE = 2e-8
SECONDS_PER_SIMULATION = 2e-4
SECONDS_PER_EMULATED_NODE = 0.05
SECONDS_PER_LIVE_RUN = 15.0


def estimated_seconds(experiment: Experiment) -> float:
    """Expected seconds of one core for all repetitions together."""
    processes = sum(experiment.sizes)
    if experiment.tier == "model":
        once = 1e-4
    elif experiment.tier == "simulate":
        messages = sum(n * (math.log(n) + experiment.c + 1) for n in experiment.sizes)
        once = SECONDS_PER_SIMULATION + messages * SECONDS_PER_SIMULATED_MESSAGE
    elif experiment.tier == "emulate":
        once = processes * SECONDS_PER_EMULATED_NODE
    else:
        once = SECONDS_PER_LIVE_RUN
    return once * experiment.repetitions
