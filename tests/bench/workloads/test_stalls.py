"""What one member's trouble does to the others, and what losses cost: counted as said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.workloads import fanout
from bench.workloads.loss import LossyFanout, lossy_fanout
from bench.workloads.stalls import TROUBLES, Plan, Trouble, phases, summary, watch_one
from bench.workloads.systems import NodeSetting
from overlay.errors import UsageError

KILLED, GOES_ON, UNREAD = TROUBLES
BRIEF = Plan(settle=0.2, trouble=0.4, end_of_trouble=0.7, end=1.0, drain=0.2)


def test_every_bin_of_a_phase_counts_against_the_median_before() -> None:
    plan = Plan(settle=0.2, trouble=0.5, end_of_trouble=0.7, end=1.0)
    assert list(phases(KILLED, plan)) == [
        ("before", 2, 5),
        ("stopped", 5, 7),
        ("killed", 7, 10),
    ]
    counts = [1, 500, 90, 100, 120, 50, 150, 0, 100, 200, 7]
    found = dict(summary(counts, KILLED, plan))
    assert found["before"]["least"] == 0.9
    assert found["stopped"] == {"rate": 1000.0, "mean": 1.0, "least": 0.5}
    assert found["killed"] == {"rate": 1000.0, "mean": 1.0, "least": 0.0}


@pytest.mark.sweep
def test_everybody_but_a_killed_subscriber_reports_its_bins() -> None:
    killed = watch_one(KILLED, NodeSetting(settling=0.5), 3, 64, 200.0, BRIEF)
    assert sum(killed.published) > 0
    assert len(killed.published) == 11
    assert len(killed.others) == 13
    assert killed.troubled is None


@pytest.mark.sweep
@pytest.mark.parametrize("trouble", [GOES_ON, UNREAD], ids=lambda trouble: trouble.name)
def test_a_subscriber_whose_trouble_ends_reports_too(trouble: Trouble) -> None:
    course = watch_one(trouble, NodeSetting(), 3, 64, 200.0, replace(BRIEF, end=3.0, drain=5.0))
    assert sum(course.others) > 0
    assert course.troubled is not None
    assert sum(course.troubled) > 0


def test_a_lossy_fanout_is_counted_the_same_for_the_same_seed() -> None:
    setting = LossyFanout(0.1, "lazy", subscribers=3, bytes=4096, events=20)
    outcome = lossy_fanout(setting, seed=3)
    assert outcome == lossy_fanout(setting, seed=3)
    assert outcome.reliability == 1.0
    assert outcome.bytes_sent > 1.0


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_every_trouble_has_two_phases(trouble: Trouble) -> None:
    assert len(list(phases(trouble, Plan()))) == 3


def test_losses_are_rows_of_the_fanout() -> None:
    options = fanout.WORKLOAD.defaults(quick=True)
    options.stop_one, options.speed = False, False
    options.loss_events, options.loss_subscribers, options.losses = 5, 2, [0.0]
    rows = list(fanout.run(options))
    assert [(row.metric, row.settings["loss"]) for row in rows] == [
        ("reliability", 0.0),
        ("bytes", 0.0),
    ]
    assert rows[0].value == 1.0
    assert rows[0].settings["latency"] == "5 to 50 ms"
    assert not fanout.WORKLOAD.is_wrong(rows)
    options.loss_latency = [1.0, 2.0, 3.0]
    with pytest.raises(UsageError, match="the least and the most"):
        list(fanout.run(options))
