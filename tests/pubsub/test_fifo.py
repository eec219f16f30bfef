"""Order by publisher and topic: nothing overtakes, and a gap is waited for only so long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.event import Event
from pubsub.fifo import FifoOrder

PUBLISHER = PeerId(bytes(20))


def event(sequence: int, topic: str = "/a", run: bytes = b"run00000") -> Event:
    return Event(topic, None, PUBLISHER, sequence, 1, run + sequence.to_bytes(8, "big"))


class Ordered:
    def __init__(self, wait: float = 0.5, limit: int = 1000) -> None:
        self.stage = Stage(0)
        self.out: list[int] = []
        self.late: list[int] = []
        context = self.stage.context(numbered_contact(0))
        self.order = FifoOrder(
            lambda e: self.out.append(e.sequence),
            context.call_later,
            lambda e: self.late.append(e.sequence),
            wait,
            limit,
        )

    def push(self, *sequences: int) -> None:
        for sequence in sequences:
            self.order.push(event(sequence))


@given(st.permutations(range(1, 12)))
def test_whatever_the_order_of_arrival_all_come_out_in_order(arrival: list[int]) -> None:
    ordered = Ordered()
    ordered.push(*arrival)
    assert ordered.out == list(range(1, 12))


@given(st.lists(st.integers(1, 20), unique=True), st.data())
def test_what_comes_out_is_increasing_and_nothing_vanishes_uncounted(
    arrival: list[int], data: st.DataObject
) -> None:
    ordered = Ordered(limit=data.draw(st.integers(1, 5)))
    for sequence in arrival:
        ordered.push(sequence)
        ordered.stage.run_for(data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    ordered.stage.run_for(60)
    assert ordered.out == sorted(ordered.out)
    assert len(ordered.out) + len(ordered.late) == len(arrival)


def test_a_gap_is_waited_for_and_then_given_up() -> None:
    ordered = Ordered(wait=0.5)
    ordered.push(1, 2, 4, 5)
    ordered.stage.run_for(0.4)
    assert ordered.out == [1, 2]
    ordered.stage.run_for(0.2)
    assert ordered.out == [1, 2, 4, 5]
    ordered.push(3, 6)
    assert ordered.out == [1, 2, 4, 5, 6]
    assert ordered.late == [3]


def test_one_who_subscribes_late_begins_where_the_publisher_is() -> None:
    ordered = Ordered()
    ordered.push(71, 70)
    assert ordered.out == []
    ordered.stage.run_for(1)
    assert ordered.out == [70, 71]


def test_topics_and_runs_of_a_publisher_are_ordered_apart() -> None:
    ordered = Ordered()
    ordered.order.push(event(1, "/a"))
    ordered.order.push(event(1, "/b"))
    ordered.order.push(event(1, "/a", run=b"run00001"))
    assert ordered.out == [1, 1, 1]


def test_closing_emits_what_is_held() -> None:
    ordered = Ordered()
    ordered.push(1, 3, 5)
    ordered.order.close()
    assert ordered.out == [1, 3, 5]
