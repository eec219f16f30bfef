"""Suspicion accrues with silence, faster for a peer that used to answer fast."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.failure.detector import AnswerTime

RETRY = 0.1
answers = st.lists(st.floats(0.001, 5), max_size=50)


def after(samples: list[float]) -> AnswerTime:
    answer_time = AnswerTime(expected=0.2)
    for sample in samples:
        answer_time.sample(sample)
    return answer_time


@given(answers, st.floats(0, 60), st.floats(0, 60))
def test_the_level_never_falls_while_silence_lasts(
    samples: list[float], first: float, second: float
) -> None:
    answer_time = after(samples)
    assert answer_time.level(min(first, second), RETRY) <= answer_time.level(
        max(first, second), RETRY
    )


@given(answers, st.floats(0.5, 20))
def test_the_timeout_is_where_the_level_reaches_the_threshold(
    samples: list[float], threshold: float
) -> None:
    answer_time = after(samples)
    assert answer_time.level(answer_time.timeout(threshold, RETRY), RETRY) == pytest.approx(
        threshold
    )


@given(answers)
def test_the_constant_part_stays_within_what_was_seen_or_expected(samples: list[float]) -> None:
    shortest = after(samples).shortest
    assert min([0.1, *samples]) <= shortest <= max([0.1, *samples])


def test_slow_and_unsteady_answers_lengthen_the_timeout() -> None:
    steady = after([0.1] * 100)
    unsteady = after([0.1, 0.1, 0.1, 0.9] * 25)
    assert unsteady.timeout(8, RETRY) > 5 * steady.timeout(8, RETRY)


def test_the_estimate_recovers_once_answers_are_fast_again() -> None:
    answer_time = after([2.0] * 20 + [0.1] * 200)
    assert answer_time.timeout(8, RETRY) < 1.0


@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
def test_at_its_timeout_a_live_peer_is_as_unlikely_to_be_silent_as_the_threshold_says(
    loss: float,
) -> None:
    """Questions 0.1 s apart, each lost with its answer by this chance: the tail is geometric."""
    rng = random.Random(1)
    samples = []
    for _ in range(2_000):
        tries = 0
        while rng.random() < loss:
            tries += 1
        samples.append(0.05 + RETRY * tries)
    timeout = after(samples).timeout(8, RETRY)
    chance = loss ** ((timeout - 0.05) / RETRY)
    assert 1e-12 < chance < 1e-5
