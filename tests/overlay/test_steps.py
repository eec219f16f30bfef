"""Steps: in order, together, cancelled, failing; without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from overlay.steps import Answer, AtOnce, Signal, Steps, answer_to, pause, together
from overlay.virtual.stage import Stage, numbered_contact


class Asked:
    """Questions that a test answers by hand; it sees which were cancelled."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[int], None]] = {}
        self.cancelled: list[str] = []

    def ask(self, name: str, give: Callable[[int], None]) -> _Question:
        self.waiting[name] = give
        return _Question(self, name)


class _Question:
    def __init__(self, asked: Asked, name: str) -> None:
        self.asked, self.name = asked, name

    def cancel(self) -> None:
        self.asked.cancelled.append(self.name)


async def _sum(asked: Asked, *names: str) -> int:
    return sum([await answer_to(partial(asked.ask, name)) for name in names])


def test_steps_ask_one_after_the_other_and_end_once() -> None:
    asked, done = Asked(), list[int]()
    steps = Steps(_sum(asked, "a", "b"), done.append)
    assert list(asked.waiting) == ["a"]
    asked.waiting["a"](1)
    asked.waiting["a"](100)
    assert list(asked.waiting) == ["a", "b"]
    assert not steps.is_over
    asked.waiting["b"](2)
    assert (done, steps.is_over) == ([3], True)


def test_steps_together_wait_for_all_and_keep_the_order() -> None:
    asked, done = Asked(), list[list[int]]()
    Steps(together([_sum(asked, "a"), _sum(asked, "b")]), done.append)
    asked.waiting["b"](2)
    assert done == []
    asked.waiting["a"](1)
    assert done == [[1, 2]]
    Steps(together(list[Steps[int]]()), done.append)  # type: ignore[arg-type]
    assert done[1] == []
    Steps(together([_sum(asked, "a", "b")]), done.append)
    asked.waiting["a"](3)
    asked.waiting["b"](4)
    assert done[2] == [7]


@pytest.mark.parametrize("names", ["ab", "a"])
def test_cancelling_steps_cancels_what_they_wait_for_and_tells_nobody(names: str) -> None:
    asked, done, running = Asked(), list[list[int]](), dict[Steps[list[int]], None]()
    work = together([_sum(asked, name) for name in names])
    steps: Steps[list[int]] = Steps(work, done.append, among=running)
    assert list(running) == [steps]
    steps.cancel()
    assert sorted(asked.cancelled) == list(names)
    for name in names:
        asked.waiting[name](1)
    assert (done, running) == ([], {})


def test_an_exception_goes_to_whoever_was_named_or_gave_the_answer() -> None:
    async def fails(asked: Asked) -> int:
        await _sum(asked, "a")
        raise ValueError("no")

    asked, errors = Asked(), list[Exception]()
    Steps(fails(asked), failed=errors.append)
    asked.waiting["a"](1)
    assert [str(error) for error in errors] == ["no"]
    Steps(together([fails(asked), _sum(asked, "b")]))
    with pytest.raises(ValueError, match="no"):
        asked.waiting["a"](1)
    assert "b" in asked.cancelled


def test_many_wait_for_a_signal_and_later_ones_not_at_all() -> None:
    signal, done = Signal(), list[None]()
    Steps(signal.wait(), done.append)
    Steps(signal.wait(), done.append).cancel()
    signal.set()
    Steps(signal.wait(), done.append)
    assert len(done) == 2


def test_a_pause_is_on_the_clock_of_the_context() -> None:
    stage, done = Stage(1), list[None]()
    Steps(pause(stage.context(numbered_contact(1)), 5.0), done.append)
    stage.run(4.9)
    assert not done
    stage.run(5.1)
    assert len(done) == 1


def test_no_more_than_the_limit_run_at_once_and_the_rest_in_order() -> None:
    turns, started = AtOnce(2), list[int]()
    starts = [partial(started.append, number) for number in range(5)]
    for start in starts:
        turns.enter(start)
    assert started == [0, 1]
    assert turns.give_up(starts[2])
    assert not turns.give_up(starts[0])
    turns.leave()
    turns.leave()
    assert started == [0, 1, 3, 4]


def test_the_first_answer_counts() -> None:
    answer: Answer[int] = Answer()
    answer.give(1)
    answer.give(2)
    answer.fail(ValueError())

    async def read() -> int:
        return await answer

    done = list[int]()
    Steps(read(), done.append)
    assert done == [1]
