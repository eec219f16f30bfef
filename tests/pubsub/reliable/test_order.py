"""Items are emitted in order and once, what is given up is told, and what waits is bounded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.context import Timer
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.reliable.numbers import Span
from pubsub.reliable.order import UNBOUNDED, Bounds, Order, PatientOrder, Verdict
from tests.pubsub.reliable.mutants import assert_noticed

SOURCES = "abc"
Step = tuple[str, str, int]
"""An action, a source and a number."""
ACTIONS = ("take", "take", "take", "skip", "begin")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(SOURCES), st.integers(-1, 16)), max_size=60
)


class Receiver:
    """Checks the promises of an order while it is used."""

    def __init__(self, order: Callable[..., Order[str, str]], **options: Any) -> None:
        self.reached: dict[str, int] = {}
        """The number up to which everything was emitted or told, or was before the beginning."""
        self.emitted: dict[str, list[int]] = {}
        self.gaps: list[tuple[str, int, int]] = []
        self.order = order(self.emit, gap=self.gap, **options)

    def emit(self, source: str, number: int, item: str) -> None:
        assert item == f"{source}{number}"
        self._follows(source, number, number)
        self.emitted.setdefault(source, []).append(number)

    def gap(self, source: str, first: int, last: int) -> None:
        self._follows(source, first, last)
        self.gaps.append((source, first, last))

    def _follows(self, source: str, first: int, last: int) -> None:
        assert first == self.reached.get(source, 0) + 1, "in order, once, and nothing left out"
        assert first <= last
        self.reached[source] = last

    def begin(self, source: str, after: int) -> None:
        self.reached[source] = max(self.reached.get(source, 0), after)
        self.order.begin(source, after)

    def take(self, source: str, number: int) -> Verdict:
        return self.order.take(source, number, f"{source}{number}")


def play(steps: list[Step], bounds: Bounds) -> None:
    """What an order promises, over some steps."""
    receiver = Receiver(Order, bounds=bounds, size=lambda item: 10)
    held: dict[str, set[int]] = {source: set() for source in SOURCES}
    order = receiver.order
    for action, source, number in steps:
        before = receiver.reached.get(source, 0)
        if action == "take":
            verdict = receiver.take(source, number)
            if number <= before or number in held[source]:
                assert verdict is Verdict.OLD
            elif number == before + 1:
                assert verdict is Verdict.TAKEN
            elif bounds.ahead is not None and number - before - 1 > bounds.ahead:
                assert verdict is Verdict.REFUSED
            elif bounds == Bounds(bounds.ahead, None, None):
                assert verdict is Verdict.EARLY
            if verdict is Verdict.EARLY:
                held[source].add(number)
        elif action == "skip":
            order.skip_to(source, number)
            assert receiver.reached.get(source, 0) >= number
            waited = {one for one in held[source] if one <= number}
            assert waited <= set(receiver.emitted.get(source, ())), "what waited is emitted"
        else:
            receiver.begin(source, number)
        reached = {one: receiver.reached.get(one, 0) for one in SOURCES}
        if bounds == Bounds(bounds.ahead, None, None):
            held = {one: {n for n in held[one] if n > reached[one]} for one in SOURCES}
        else:  # what was dropped for want of room is gone
            held = {one: {n for n in held[one] if order.early(one, n)} for one in SOURCES}
        check_state(order, reached, held)
        waiting = [one for one in SOURCES if held[one]]
        assert bounds.sources is None or len(waiting) <= bounds.sources
        assert bounds.bytes is None or order.early_bytes <= bounds.bytes


def check_state(order: Order[str, str], reached: dict[str, int], held: dict[str, set[int]]) -> None:
    assert order.waiting == sum(map(len, held.values()))
    assert order.early_bytes == 10 * order.waiting
    for source in SOURCES:
        assert order.last(source) == reached[source]
        assert order.marks().get(source, 0) == reached[source]
        lowest = min(held[source], default=None)
        assert lowest is None or lowest > reached[source] + 1, "nothing waits whose turn it is"
        hole = None if lowest is None else Span(reached[source] + 1, lowest - 1)
        assert order.hole(source) == hole
        assert all(order.early(source, one) == f"{source}{one}" for one in held[source])


BOUNDS = st.builds(
    Bounds,
    ahead=st.none() | st.integers(1, 12),
    sources=st.none() | st.integers(1, 2),
    bytes=st.none() | st.sampled_from([10, 30]),
)


@settings(deadline=None, max_examples=150)
@given(STEPS, BOUNDS)
def test_an_order_keeps_its_promises_and_its_bounds(steps: list[Step], bounds: Bounds) -> None:
    play(steps, bounds)


@settings(deadline=None)
@given(st.permutations(range(1, 30)), st.data())
def test_everything_that_comes_is_emitted_whatever_its_order(
    numbers: list[int], data: st.DataObject
) -> None:
    receiver = Receiver(Order)
    repeated = data.draw(st.lists(st.sampled_from(numbers), max_size=20))
    for number in [*numbers, *repeated]:
        receiver.take("a", number)
    assert receiver.emitted["a"] == sorted(numbers)
    assert not receiver.gaps
    assert receiver.order.waiting == 0


def test_what_was_dropped_for_want_of_room_is_told_and_may_come_again() -> None:
    told: list[int] = []
    receiver = Receiver(Order, bounds=Bounds(8, 1, None), size=lambda item: 1, dropped=told.append)
    assert receiver.take("a", 2) is receiver.take("a", 3) is Verdict.EARLY
    assert receiver.take("b", 2) is Verdict.EARLY
    assert told == [2]
    for number in (1, 2, 3):
        receiver.take("a", number)
    assert receiver.emitted["a"] == [1, 2, 3]


def test_a_source_that_was_forgotten_begins_again() -> None:
    receiver = Receiver(Order)
    receiver.take("a", 1)
    receiver.take("a", 3)
    receiver.order.forget("a")
    receiver.reached.clear()
    assert "a" not in receiver.order
    assert receiver.order.waiting == receiver.order.early_bytes == 0
    assert receiver.take("a", 1) is Verdict.TAKEN


def test_what_is_emitted_may_bring_more() -> None:
    """An application that is given an item may cause the next one to come, from inside the call."""
    got: list[int] = []

    def emit(source: str, number: int, item: str) -> None:
        got.append(number)
        if number < 6:
            order.take(source, number + 2, "")
            order.take(source, number + 1, "")

    order: Order[str, str] = Order(emit)
    order.take("a", 1, "")
    assert got == sorted(set(got))
    assert got[-1] >= 6


# With patience.


class Clock:
    """Timers by hand."""

    def __init__(self) -> None:
        self.stage = Stage(1)
        self.context = self.stage.context(numbered_contact(1))

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self.context.call_later(delay, action)


def play_patiently(chance: random.Random) -> None:
    """Items that come late or never: all that came are emitted, and gaps are told when due, not sooner."""
    clock = Clock()
    patience, most_early = chance.choice([1.0, 4.0]), chance.choice([2, 5, 100])
    receiver = Receiver(
        PatientOrder, call_later=clock.call_later, patience=patience, most_early=most_early
    )
    came: dict[str, set[int]] = {source: set() for source in SOURCES}
    since: dict[str, float] = {}
    """When a source began to wait, or last gave up."""

    def gap(source: str, first: int, last: int) -> None:
        in_time = clock.stage.now - since[source] >= patience - 1e-6
        assert in_time or order_held(receiver, source) > most_early, "given up before its time"
        since[source] = clock.stage.now
        receiver.gap(source, first, last)

    receiver.order._gap = gap
    for _ in range(80):
        source, number = chance.choice(SOURCES), chance.randint(1, 20)
        if not order_held(receiver, source):
            since[source] = clock.stage.now
        verdict = receiver.take(source, number)
        if verdict in (Verdict.TAKEN, Verdict.EARLY):
            came[source].add(number)
        assert order_held(receiver, source) <= most_early
        clock.stage.run_for(chance.choice([0.0, 0.3, 1.0]))
        for one in SOURCES:
            waited = clock.stage.now - since.get(one, clock.stage.now)
            assert not order_held(receiver, one) or waited <= patience + 1e-6, "waits too long"
    clock.stage.run_for(100)
    assert receiver.order.waiting == 0
    for source in SOURCES:
        assert set(receiver.emitted.get(source, ())) == came[source]


def order_held(receiver: Receiver, source: str) -> int:
    return sum(receiver.order.early(source, number) is not None for number in range(1, 21))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 30))
def test_a_patient_order_waits_for_its_time_and_no_longer(seed: int) -> None:
    play_patiently(random.Random(seed))


def patient(**options: Any) -> tuple[Receiver, Clock]:
    clock = Clock()
    options = {"patience": 1.0, "most_early": 3, **options}
    return Receiver(PatientOrder, call_later=clock.call_later, **options), clock


def test_without_patience_it_waits_as_long_as_it_takes() -> None:
    receiver, clock = patient(patience=None)
    for number in range(20, 1, -1):
        assert receiver.take("a", number) is Verdict.EARLY
    clock.stage.run_for(1e6)
    assert receiver.order.waiting == 19
    receiver.take("a", 1)
    assert receiver.emitted["a"] == list(range(1, 21))


def test_a_run_of_items_in_turn_is_left_to_the_caller() -> None:
    receiver, _clock = patient()
    order = receiver.order
    assert isinstance(order, PatientOrder)
    assert order.take_next("a", 1, 5)
    assert order.last("a") == 5
    assert receiver.emitted == {}
    receiver.reached["a"] = 5
    assert not order.take_next("a", 5, 2), "one of them is old"
    assert not order.take_next("a", 7, 1), "it is early"
    assert receiver.take("a", 7) is Verdict.EARLY
    assert not order.take_next("a", 6, 1), "another one waits behind it"
    assert receiver.take("a", 6) is Verdict.TAKEN
    assert receiver.emitted["a"] == [6, 7]
    assert order.take_next("a", 8, 2)


def test_the_source_that_is_silent_for_longest_makes_room() -> None:
    receiver, clock = patient(most_sources=2)
    order = receiver.order
    assert isinstance(order, PatientOrder)
    assert order.take_next("a", 1, 1)
    receiver.take("b", 2)
    assert order.take_next("a", 2, 1)
    receiver.take("c", 1)
    assert "b" not in order
    assert receiver.emitted["b"] == [2], "what waits is emitted before it goes"
    assert receiver.gaps == [("b", 1, 1)]
    assert order.last("a") == 2
    clock.stage.run_for(10)
    assert receiver.emitted["b"] == [2]


def test_closing_emits_what_waits() -> None:
    receiver, _clock = patient()
    for number in (1, 3, 5):
        receiver.take("a", number)
    assert isinstance(receiver.order, PatientOrder)
    receiver.order.close()
    assert receiver.emitted["a"] == [1, 3, 5]
    assert len(receiver.order) == 0


# Broken orders, each of which must be noticed.


def emits_what_is_early(patch: pytest.MonkeyPatch) -> None:
    take = Order.take

    def eager(self: Any, source: str, number: int, item: str) -> Verdict:
        if number == self.last(source) + 2:
            self._emit(source, number, item)
        return take(self, source, number, item)

    patch.setattr(Order, "take", eager)


def emits_again_what_is_old(patch: pytest.MonkeyPatch) -> None:
    take = Order.take

    def forgetful(self: Any, source: str, number: int, item: str) -> Verdict:
        verdict = take(self, source, number, item)
        if verdict is Verdict.OLD and 0 < number <= self.last(source):
            self._emit(source, number, item)
        return verdict

    patch.setattr(Order, "take", forgetful)


def leaves_waiting_what_has_its_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Order, "_release", lambda self, source: None)


def skips_in_silence(patch: pytest.MonkeyPatch) -> None:
    skip_to = Order.skip_to

    def skip(self: Any, source: str, number: int) -> None:
        gap, self._gap = self._gap, lambda source, first, last: None
        skip_to(self, source, number)
        self._gap = gap

    patch.setattr(Order, "skip_to", skip)


def drops_what_waits_when_it_skips(patch: pytest.MonkeyPatch) -> None:
    def skip(self: Any, source: str, number: int) -> None:
        following = self.last(source) + 1
        if following <= number:
            self._gap(source, following, number)
            self.begin(source, number)

    patch.setattr(Order, "skip_to", skip)


def knows_no_bounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Order, "_make_room", lambda self: None)


def counts_no_bytes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Order, "_pop", lambda self, early, number: early.pop(number))


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PatientOrder, "_timed_out", lambda self, source: None)


def gives_up_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PatientOrder, "_wait_or_give_up", lambda self, source: PatientOrder._give_up(self, source)
    )


def gives_up_once_only(patch: pytest.MonkeyPatch) -> None:
    def timed_out(self: Any, source: str) -> None:
        hole = self.hole(source)
        self.skip_to(source, hole.last)

    patch.setattr(PatientOrder, "_timed_out", timed_out)


def lets_any_number_wait(patch: pytest.MonkeyPatch) -> None:
    wait = PatientOrder._wait_or_give_up

    def patient(self: Any, source: str) -> None:
        self._most_early = 10**9
        wait(self, source)

    patch.setattr(PatientOrder, "_wait_or_give_up", patient)


MUTANTS = [
    emits_what_is_early,
    emits_again_what_is_old,
    leaves_waiting_what_has_its_turn,
    skips_in_silence,
    drops_what_waits_when_it_skips,
    knows_no_bounds,
    counts_no_bytes_back,
    waits_for_ever,
    gives_up_at_once,
    gives_up_once_only,
    lets_any_number_wait,
]


def play_both(chance: random.Random) -> None:
    steps = [
        (chance.choice(ACTIONS), chance.choice(SOURCES), chance.randint(-1, 16))
        for _ in range(chance.randrange(60))
    ]
    play(steps, chance.choice([UNBOUNDED, Bounds(12, 1, None), Bounds(None, None, 30)]))
    play_patiently(chance)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_order_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert_noticed(play_both, 100)


def test_the_whole_one_is_not() -> None:
    chance = random.Random(2)
    for _ in range(20):
        play_both(chance)


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), max_size=40),
)
def test_runs_of_items_come_in_order_once_as_single_items_do(
    after: int, arrivals: list[tuple[int, int]]
) -> None:
    """`take_run` gives what `take` emits, item by item, and leaves the same behind."""
    emitted: list[int] = []
    single: Order[str, int] = Order(lambda source, number, item: emitted.append(item))
    runs: Order[str, int] = Order(lambda source, number, item: None)
    given: list[int] = []
    for order in (single, runs):
        order.begin("s", after)
    for first, count in arrivals:
        numbers = range(first, first + count)
        for number in numbers:
            single.take("s", number, number)
        given += runs.take_run("s", first, numbers)
    assert given == emitted == list(range(after + 1, after + 1 + len(emitted)))
    assert runs.hole("s") == single.hole("s")
    assert runs.waiting == single.waiting
    assert runs.last("s") == single.last("s")


def test_a_run_that_is_too_early_is_dropped_and_told() -> None:
    dropped: list[int] = []
    order: Order[str, int] = Order(
        lambda source, number, item: None, bounds=Bounds(ahead=3), dropped=dropped.append
    )
    assert not order.take_run("s", 3, range(3, 10))
    assert (order.waiting, dropped) == (2, [5])
    assert order.sources() == ["s"]
    assert list(order.take_run("s", 1, range(1, 4))) == [1, 2, 3, 4]
