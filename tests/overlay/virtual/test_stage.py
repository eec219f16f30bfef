"""The stage runs cores on virtual time: deterministic, with the faults it promises."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from overlay.contact import Contact
from overlay.context import Context
from overlay.errors import UsageError
from overlay.virtual.stage import Stage, StageConfig, numbered_contact

A, B, C = (numbered_contact(n) for n in range(3))
Log = list[tuple[float, str, object]]


class Echo:
    """Answers a number with the next one, after a second, until ten."""

    def __init__(self, stage: Stage, contact: Contact, log: Log) -> None:
        self.context: Context = stage.context(contact)
        self.log = log
        stage.attach(contact, self.receive)

    def receive(self, sender: Contact, message: object) -> None:
        assert isinstance(message, int)
        self.log.append((self.context.now(), str(sender), message))
        if message < 10:
            self.context.call_later(
                self.context.random.uniform(0, 1), lambda: self.context.send(sender, message + 1)
            )


def conversation(seed: int, config: StageConfig | None = None) -> Log:
    stage, log = Stage(seed, config), Log()
    first = Echo(stage, A, log)
    Echo(stage, B, log)
    for start in range(3):
        first.context.send(B, start)
    stage.run(100)
    return log


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    config = StageConfig(loss=0.05, duplicate=0.3)
    assert conversation(1, config) == conversation(1, config)
    assert conversation(1, config) != conversation(2, config)


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    code = "from tests.overlay.virtual.test_stage import conversation as c; print(c(5))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_messages_take_the_configured_latency_and_overtake_each_other() -> None:
    stage = Stage(3, StageConfig(latency=(0.2, 0.4)))
    arrivals: list[tuple[float, object]] = []
    stage.attach(B, lambda _, message: arrivals.append((stage.now, message)))
    for number in range(50):
        stage.context(A).send(B, number)
    stage.run(1)
    assert len(arrivals) == 50
    assert all(0.2 <= at <= 0.4 for at, _ in arrivals)
    assert [number for _, number in arrivals] != list(range(50))


def test_loss_and_duplication_come_as_often_as_configured() -> None:
    stage = Stage(4, StageConfig(loss=0.2, duplicate=0.5))
    arrived: list[object] = []
    stage.attach(B, lambda _, message: arrived.append(message))
    context = stage.context(A)
    for number in range(4000):
        context.send(B, number)
    stage.run(1)
    assert 0.17 < stage.dropped["lost"] / 4000 < 0.23
    assert 0.45 < len(arrived) / len(set(arrived)) - 1 < 0.55


def test_a_crashed_actor_loses_its_timers_and_messages_and_comes_back_empty() -> None:
    stage = Stage(5)
    heard: list[object] = []
    context = stage.context(B)
    context.call_later(2, lambda: heard.append("timer"))
    stage.attach(B, lambda _, message: heard.append(message))
    stage.context(A).send(B, "before")
    stage.crash(B)
    assert not stage.is_up(B)
    context.send(A, "from the dead")
    stage.run(1)
    stage.restart(B)
    stage.attach(B, lambda _, message: heard.append(message))
    stage.context(A).send(B, "after")
    stage.run(5)
    assert heard == ["after"]
    assert stage.sent == 2


def test_a_partition_separates_its_sides_until_it_heals() -> None:
    stage = Stage(6)
    heard: list[object] = []
    stage.attach(C, lambda _, message: heard.append(message))
    stage.partition([A])
    stage.context(A).send(C, "across")
    stage.context(B).send(C, "within")
    stage.run(1)
    stage.heal()
    stage.context(A).send(C, "healed")
    stage.run(2)
    assert heard == ["within", "healed"]
    assert stage.dropped["partitioned"] == 1


def test_timers_fire_in_order_once_and_not_after_cancelling() -> None:
    stage = Stage(7)
    fired: list[int] = []
    context = stage.context(A)
    timers = [context.call_later(delay, lambda d=delay: fired.append(d)) for delay in (3, 1, 2)]
    timers[2].cancel()
    stage.run(10)
    timers[0].cancel()
    assert fired == [1, 3]
    assert stage.now == 10


def test_an_observer_sees_every_message_even_those_that_are_lost() -> None:
    stage = Stage(8, StageConfig(loss=1))
    seen: list[object] = []
    stage.observe(lambda time, sender, receiver, message: seen.append((sender, receiver, message)))
    stage.context(A).send(B, "hello")
    assert seen == [(A, B, "hello")]


def test_the_wire_check_fails_for_what_no_wire_carries() -> None:
    stage = Stage(9, StageConfig(check_wire=True))
    with pytest.raises(UsageError, match="not a registered message"):
        stage.context(A).send(B, object())


def test_an_actors_exception_names_the_seed() -> None:
    stage = Stage(10)

    def fail() -> None:
        raise RuntimeError("broken")

    stage.context(A).call_later(1, fail)
    with pytest.raises(RuntimeError) as caught:
        stage.run(2)
    assert "seed 10" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "wrong", [{"loss": 1.5}, {"duplicate": -0.1}, {"latency": (2.0, 1.0)}, {"latency": (-1.0, 1.0)}]
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(StageConfig(), **wrong)  # type: ignore[arg-type]
