"""Order by publisher and topic: nothing overtakes, and a gap is waited for only so long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.event import Batch, Origin
from pubsub.subscription import FifoOrder

PUBLISHER = PeerId(bytes(20))


def batch(first: int, count: int = 1, run: bytes = b"run00000") -> Batch:
    return Batch(Origin("/a", PUBLISHER, run, 1), first, [None] * count)


class Ordered:
    def __init__(self, wait: float = 0.5, limit: int = 1000) -> None:
        self.stage = Stage(0)
        self.out: list[int] = []
        self.late: list[int] = []
        context = self.stage.context(numbered_contact(0))
        self.order = FifoOrder(
            lambda batch: self.out.extend(batch.numbers),
            context.call_later,
            lambda batch: self.late.extend(batch.numbers),
            wait,
            limit,
        )

    def push(self, *sequences: int) -> None:
        for sequence in sequences:
            self.order.push(batch(sequence))


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


def test_runs_of_a_publisher_are_ordered_apart() -> None:
    ordered = Ordered()
    ordered.order.push(batch(1))
    ordered.order.push(batch(1, run=b"run00001"))
    assert ordered.out == [1, 1]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 8)), max_size=12),
    st.integers(1, 10),
    st.data(),
)
def test_batches_that_overlap_come_out_in_order_and_each_event_once(
    arrival: list[tuple[int, int]], limit: int, data: st.DataObject
) -> None:
    ordered = Ordered(limit=limit)
    for first, count in arrival:
        ordered.order.push(batch(first, count))
        ordered.stage.run_for(data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    ordered.stage.run_for(60)
    assert ordered.out == sorted(set(ordered.out)), "in order, and none twice"
    came = {number for first, count in arrival for number in range(first, first + count)}
    assert set(ordered.out) | set(ordered.late) == came


def test_closing_emits_what_is_held() -> None:
    ordered = Ordered()
    ordered.push(1, 3, 5)
    ordered.order.close()
    assert ordered.out == [1, 3, 5]
