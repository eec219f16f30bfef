"""Every broadcast keeps its textbook properties, whatever the schedule; and each property has a mutant."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.broadcast import stacks
from pubsub.broadcast.kernel import Stack
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks
from pubsub.broadcast.majority import IndulgentUniform
from pubsub.broadcast.reliable import UniformSession
from tests.pubsub.broadcast.adversary import Schedule, World, run
from tests.pubsub.broadcast.properties import (
    History,
    agreement,
    causal_order,
    fifo_order,
    no_creation,
    no_duplication,
    nothing_skipped,
    uniform_agreement,
    validity,
)

Property = Callable[[History], list[str]]

BASIC: tuple[Property, ...] = (validity, no_duplication, no_creation)
PROMISED: dict[str, tuple[Property, ...]] = {
    "beb": BASIC,
    "rb": (*BASIC, agreement),
    "urb": (*BASIC, agreement, uniform_agreement),
    "iurb": (*BASIC, agreement, uniform_agreement),
}
ORDERED: dict[str, tuple[Property, ...]] = {
    "none": (),
    "fifo": (fifo_order,),
    "causal": (fifo_order, causal_order, nothing_skipped),
}

few = settings(max_examples=40, database=None)
many = settings(few, max_examples=400)


@st.composite
def schedules(draw: st.DrawFn, minority: bool = False) -> Schedule:
    members = draw(st.integers(2, 6))
    most = (members - 1) // 2 if minority else members - 1
    crashing = draw(st.lists(st.integers(0, members - 1), max_size=most, unique=True))
    sudden = draw(st.integers(0, len(crashing)))
    return Schedule(
        seed=draw(st.integers(0, 1 << 32)),
        members=members,
        broadcasts=draw(st.integers(1, 12)),
        crashes=tuple((rank, draw(st.integers(1, 30))) for rank in crashing[sudden:]),
        sudden=tuple(crashing[:sudden]),
        partitions=draw(st.integers(0, 3)),
    )


def check(qos: Stack, schedule: Schedule, properties: tuple[Property, ...]) -> None:
    history = run(qos, schedule)
    for holds in properties:
        assert not holds(history), f"{qos.name}: {holds.__name__} under {schedule}"


def check_promises(name: str, order: str, schedule: Schedule) -> None:
    promised = PROMISED[name] + ORDERED[order]
    if name == "beb":  # others may have had what this member never gets
        promised = tuple(holds for holds in promised if holds is not nothing_skipped)
    check(stacks.stack(name, order), schedule, promised)


@pytest.mark.parametrize("order", stacks.ORDERS)
@pytest.mark.parametrize("name", ["beb", "rb", "urb"])
@few
@given(schedule=schedules())
def test_what_is_promised_holds_under_any_crashes(
    name: str, order: str, schedule: Schedule
) -> None:
    check_promises(name, order, schedule)


@pytest.mark.parametrize("order", stacks.ORDERS)
@few
@given(schedule=schedules(minority=True))
def test_the_indulgent_one_holds_while_a_majority_is_correct(
    order: str, schedule: Schedule
) -> None:
    check_promises("iurb", order, schedule)


INDULGENT_WITH_A_LIAR = Stack(
    [IndulgentUniform(), PerfectDetector(), BestEffort(), PerfectLinks()], "iurb"
)


@few
@given(schedule=schedules(minority=True), lies=st.integers(1, 6))
def test_the_indulgent_one_holds_under_false_suspicions(schedule: Schedule, lies: int) -> None:
    lying = Schedule(**(vars(schedule) | {"lies": lies}))
    check(INDULGENT_WITH_A_LIAR, lying, PROMISED["iurb"])


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["rb", "urb", "iurb"])
@many
@given(schedule=schedules(minority=True))
def test_what_is_promised_holds_over_many_schedules(name: str, schedule: Schedule) -> None:
    check_promises(name, "causal", schedule)


@few
@given(schedule=schedules())
def test_no_message_is_left_waiting_when_senders_crash(schedule: Schedule) -> None:
    world = World(stacks.stack("urb"), schedule)
    world.run()
    for rank in world.correct():
        session = world.channels[rank].session("urb")
        assert isinstance(session, UniformSession)
        assert session.waiting == 0


def test_best_effort_does_not_agree_when_a_sender_crashes() -> None:
    """The checkers and the schedules can tell: what is not promised is seen to fail."""
    histories = [
        run(stacks.stack("beb"), Schedule(seed, crashes=((0, 2),), broadcasts=6))
        for seed in range(100)
    ]
    assert any(agreement(history) for history in histories)
    assert any(fifo_order(history) for history in histories)


def test_lazy_broadcast_does_not_agree_uniformly() -> None:
    qos = stacks.stack("rb")
    schedules = [Schedule(seed, crashes=((0, 5), (1, 6))) for seed in range(300)]
    assert any(uniform_agreement(run(qos, schedule)) for schedule in schedules)
