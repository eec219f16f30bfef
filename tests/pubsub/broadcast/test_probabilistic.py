"""Probabilistic broadcast covers what its closed form says, and keeps within its bounds."""

from __future__ import annotations

import random
from collections import Counter
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.broadcast.events import Broadcast, Deliver, LayerMessage
from pubsub.broadcast.kernel import BadMessage, LayerChannel, LayerEvent
from pubsub.broadcast.probabilistic import FARTHEST, Probabilistic, ProbabilisticSession, missing
from pubsub.broadcast.process import GroupProcess
from pubsub.broadcast.stacks import stack
from pubsub.reliable.numbers import Numbers
from tests.pubsub.broadcast.properties import Delivery, History, no_creation, no_duplication


class Crowd:
    """Many members of one group on a stage."""

    def __init__(self, layer: Probabilistic, members: int, seed: int, **network: Any) -> None:
        self.stage = Stage(seed, StageConfig(**network))
        self.delivered: Counter[Any] = Counter()
        self.channels: list[LayerChannel] = []
        contacts = [numbered_contact(number) for number in range(members)]
        qos = stack("pb", probabilistic=layer)
        for rank, contact in enumerate(contacts):
            process = GroupProcess(rank, contacts, self.stage.context(contact))
            self.stage.attach(contact, process.receive)  # type: ignore[arg-type]
            self.channels.append(qos.open(process, self._delivered))

    def _delivered(self, event: LayerEvent) -> None:
        assert isinstance(event, Deliver)
        self.delivered[event.message.data] += 1

    def broadcast(self, rank: int, data: Any) -> None:
        self.channels[rank].push(Broadcast(LayerMessage(data)))

    def stored(self, rank: int) -> int:
        session = self.channels[rank].session("pb")
        assert isinstance(session, ProbabilisticSession)
        return session.stored


def coverage(
    layer: Probabilistic, broadcasts: int, seed: int, members: int = 1000, loss: float = 0.0
) -> list[float]:
    """The fraction of the other members that each of some broadcasts reaches."""
    crowd = Crowd(layer, members, seed, loss=loss, duplicate=0.0)
    chance = random.Random(seed)
    for number in range(broadcasts):
        crowd.broadcast(chance.randrange(members), number)
        crowd.stage.run_for(2)
    return [(crowd.delivered[number] - 1) / (members - 1) for number in range(broadcasts)]


def check_coverage(fanout: int, rounds: int, loss: float, broadcasts: int) -> None:
    reached = coverage(Probabilistic(fanout, rounds), broadcasts, seed=fanout + rounds, loss=loss)
    quantile = student.ppf(0.9995, broadcasts - 1)
    band = quantile * max(stdev(reached), 1e-3) / broadcasts**0.5
    assert abs(mean(reached) - (1 - missing(1000, fanout, rounds, loss))) <= band
    if not loss:
        fewer = 1 - missing(1000, fanout, rounds - 1)
        assert abs(mean(reached) - fewer) > band, "the band would not tell one round less"


@pytest.mark.parametrize(("fanout", "rounds", "loss"), [(2, 9, 0.0), (3, 6, 0.1), (4, 5, 0.0)])
def test_coverage_is_within_the_band_of_the_closed_form(
    fanout: int, rounds: int, loss: float
) -> None:
    check_coverage(fanout, rounds, loss, broadcasts=12)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("fanout", "rounds", "loss"),
    [(2, 6, 0.0), (2, 8, 0.2), (3, 4, 0.2), (3, 6, 0.0), (5, 3, 0.0), (6, 4, 0.2)],
)
def test_coverage_is_within_the_band_over_fanouts_and_rounds(
    fanout: int, rounds: int, loss: float
) -> None:
    check_coverage(fanout, rounds, loss, broadcasts=30)


def test_nobody_is_missed_when_everybody_is_picked() -> None:
    assert missing(5, 4, 1) == 0
    assert missing(5, 4, 1, loss=1.0) == 1
    assert set(coverage(Probabilistic(4, 1), 5, seed=1, members=5)) == {1.0}


def gossip_among_crashes(seed: int, loss: float, duplicate: float, first_only: bool) -> History:
    """What eight members deliver, of whom some crash between two copies of a gossip."""
    stage = Stage(seed, StageConfig(loss=loss, duplicate=duplicate))
    history = History()
    contacts = [numbered_contact(number) for number in range(8)]
    chance = random.Random(seed)
    crash_after = {contacts[rank].id: chance.randrange(1, 30) for rank in (0, 1)}
    sent: Counter[bytes] = Counter()

    def observe(now: float, sender: Contact, to: Contact, message: object) -> None:
        sent[sender.id] += 1
        if sent[sender.id] == crash_after.get(sender.id):
            stage.crash(sender)

    def member(rank: int) -> LayerChannel:
        process = GroupProcess(rank, contacts, stage.context(contacts[rank]))
        stage.attach(contacts[rank], process.receive)  # type: ignore[arg-type]
        qos = stack("pb", probabilistic=Probabilistic(3, 3, first_only=first_only))
        return qos.open(process, lambda event: delivered(rank, event))

    def delivered(rank: int, event: Any) -> None:
        history.record(Delivery(rank, event.source, tuple(event.message.data)))

    def broadcast(rank: int) -> None:
        if stage.is_up(contacts[rank]):
            payload = (rank, len(history.broadcasts[rank]))
            history.record_broadcast(rank, payload)
            channels[rank].push(Broadcast(LayerMessage(list(payload))))

    stage.observe(observe)
    channels = [member(rank) for rank in range(8)]
    for number in range(24):
        stage.call_at(0.03 * number, lambda rank=number % 8: broadcast(rank))
    stage.run_for(10)
    return history


@settings(max_examples=30, deadline=None, database=None)
@given(
    seed=st.integers(0, 1 << 32),
    loss=st.floats(0, 0.9),
    duplicate=st.floats(0, 1),
    first_only=st.booleans(),
)
def test_nothing_is_delivered_twice_or_out_of_thin_air(
    seed: int, loss: float, duplicate: float, first_only: bool
) -> None:
    history = gossip_among_crashes(seed, loss, duplicate, first_only)
    assert not no_duplication(history)
    assert not no_creation(history)
    for rank, payloads in history.broadcasts.items():
        assert set(payloads) <= set(history.payloads(rank)), "a sender delivers its own"


def test_a_gossip_that_forgets_what_it_delivered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Numbers, "add", lambda self, number: True)
    assert no_duplication(gossip_among_crashes(1, loss=0.1, duplicate=0.1, first_only=False))


def test_gossip_at_the_first_reception_only_costs_less_for_nearly_the_same_coverage() -> None:
    cost, reached = {}, {}
    for first_only in (False, True):
        crowd = Crowd(Probabilistic(4, 7, first_only=first_only), 300, seed=1)
        crowd.broadcast(0, "x")
        crowd.stage.run_for(2)
        cost[first_only], reached[first_only] = crowd.stage.sent, crowd.delivered["x"]
    assert cost[False] == sum(4**n for n in range(1, 8))
    assert cost[True] <= 300 * 4
    assert reached[False] == 300
    assert reached[True] > 0.9 * 300


def test_no_member_sends_more_than_its_throughput_or_stores_more_than_its_bound() -> None:
    layer = Probabilistic(3, 4, throughput=50, most_stored=20)
    crowd = Crowd(layer, 20, seed=2)
    sent: Counter[tuple[bytes, int]] = Counter()
    crowd.stage.observe(lambda now, sender, to, message: sent.update([(sender.id, int(now))]))
    for number in range(200):
        crowd.stage.call_at(
            number * 0.01, lambda number=number: crowd.broadcast(number % 20, number)
        )
    for _ in range(40):
        crowd.stage.run_for(0.1)
        # Numbers of each of 20 senders, and messages that wait.
        assert max(crowd.stored(rank) for rank in range(20)) <= 20 * 20 + 20
    assert max(sent.values()) <= 51
    assert len(crowd.delivered) == 200


@pytest.mark.parametrize("wrong", ["fanout", "maxrounds", "most_stored", "throughput"])
def test_parameters_that_cannot_work_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        Probabilistic(**{wrong: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["fifo", "causal"])
def test_an_order_over_gossip_skips_what_was_missed_and_keeps_the_rest_in_order(order: str) -> None:
    stage = Stage(5, StageConfig(loss=0.3))
    contacts = [numbered_contact(number) for number in range(8)]
    inboxes: list[list[Any]] = [[] for _ in contacts]
    channels = []
    for rank, contact in enumerate(contacts):
        process = GroupProcess(rank, contacts, stage.context(contact))
        stage.attach(contact, process.receive)  # type: ignore[arg-type]
        inbox = inboxes[rank]
        channels.append(
            stack("pb", order, Probabilistic(2, 3)).open(
                process,
                lambda event, inbox=inbox: inbox.append(event.message.data),  # type: ignore[misc]
            )
        )
    for number in range(40):
        stage.call_at(
            number * 0.1, lambda number=number: channels[0].push(Broadcast(LayerMessage(number)))
        )
    stage.run_for(120)
    assert inboxes[0] == list(range(40))
    for inbox in inboxes:
        assert inbox == sorted(set(inbox))
        assert len(inbox) > 10
    assert min(map(len, inboxes)) < 40


def test_a_number_far_above_all_others_is_not_believed() -> None:
    crowd = Crowd(Probabilistic(2, 3), 2, seed=1)
    session = crowd.channels[0].session("pb")
    assert isinstance(session, ProbabilisticSession)
    assert session._saw(1, 1)
    with pytest.raises(BadMessage):
        session._saw(1, FARTHEST + 2)
    assert session._saw(1, 2)
