"""The window takes each counter once, and agrees with a set that forgets nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.session.session import WINDOW, ReplayWindow

near = st.integers(0, 2 * WINDOW)
counters = st.lists(near | near.map(lambda n: n + 2**40) | st.integers(0, 2**64 - 1), max_size=60)


@given(counters)
def test_each_counter_is_taken_once_if_it_is_not_too_late(arrivals: list[int]) -> None:
    window, seen, newest = ReplayWindow(), set[int](), -1
    for counter in arrivals:
        is_new = counter not in seen and counter > newest - WINDOW
        assert window.is_new(counter) is is_new
        if is_new:
            window.mark(counter)
            seen.add(counter)
            newest = max(newest, counter)


def test_asking_does_not_mark() -> None:
    window = ReplayWindow()
    assert window.is_new(5)
    assert window.is_new(5)
    window.mark(5)
    assert not window.is_new(5)


def test_everything_within_the_window_may_come_late_and_nothing_behind_it() -> None:
    window = ReplayWindow()
    window.mark(WINDOW)
    for counter in range(1, WINDOW):
        assert window.is_new(counter)
        window.mark(counter)
        assert not window.is_new(counter)
    assert not window.is_new(0)
    window.mark(10 * WINDOW)
    assert not window.is_new(9 * WINDOW)
    assert window.is_new(9 * WINDOW + 1)
