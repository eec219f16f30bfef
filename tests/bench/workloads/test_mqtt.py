"""The benchmark of the door for MQTT: it runs, and all of its messages arrive."""

from __future__ import annotations

import argparse

import pytest

from bench.servers import NotInstalled, installed
from bench.workloads.mqtt import WORKLOAD, run


@pytest.mark.sweep
def test_a_small_run_has_a_row_for_everything_and_loses_nothing() -> None:
    names = {option.name: option.default for option in WORKLOAD.options}
    few = {"subscribers": [2], "doors": [1, 2], "messages": 200, "clients": 5, "runs": 1}
    rows = list(run(argparse.Namespace(**(names | few))))
    delivered = [row for row in rows if row.metric == "delivered"]
    try:
        installed("mosquitto", package="mosquitto")
        systems = 3
    except NotInstalled:
        systems = 2
    assert len(delivered) == 3 * systems
    assert all(row.value == 1.0 for row in delivered)
    assert len([row for row in rows if row.metric == "memory"]) == systems - 1
