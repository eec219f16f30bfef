"""What is the same for all cores: one timer at a time."""

from __future__ import annotations

from overlay.context import OneTimer
from overlay.virtual.stage import Stage, numbered_contact


def test_one_timer_rings_once_for_each_time_it_is_set() -> None:
    stage = Stage(seed=1)
    rung: list[float] = []
    timer = OneTimer(stage.context(numbered_contact(0)).call_later, lambda: rung.append(stage.now))
    timer.set(1.0)
    timer.set(0.5)
    assert timer.is_set
    stage.run(2.0)
    assert rung == [1.0]
    assert not timer.is_set
    timer.set(1.0)
    timer.cancel()
    timer.set(3.0)
    stage.run(6.0)
    assert rung == [1.0, 5.0]
    timer.set(1.0)
    timer.close()
    timer.set(1.0)
    stage.run(10.0)
    assert rung == [1.0, 5.0]


def test_a_timer_may_be_set_again_by_what_it_calls() -> None:
    stage = Stage(seed=1)
    rung: list[float] = []

    def ring() -> None:
        rung.append(stage.now)
        if len(rung) < 3:
            timer.set(1.0)

    timer = OneTimer(stage.context(numbered_contact(0)).call_later, ring)
    timer.set(1.0)
    stage.run(10.0)
    assert rung == [1.0, 2.0, 3.0]
