"""The paper's properties under crashes, partitions, false suspicions, loss, duplication and reordering."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.pubsub.distributors.properties import check_all
from tests.pubsub.distributors.storm import NeverAgreed, Storm

QUICK = range(12)
SWEEP = range(12, 212)


@pytest.mark.parametrize("seed", QUICK)
def test_the_properties_hold_in_a_storm(seed: int) -> None:
    check_all(Storm(seed).play())


@pytest.mark.parametrize("seed", [62, 71])
def test_the_properties_hold_though_distributors_come_back_at_any_moment(seed: int) -> None:
    """With these seeds a publisher waited for ever: its distributor came back without what it had
    acknowledged, before anybody noticed that it had crashed."""
    theatre = Storm(seed, restarts=True).play()
    assert theatre.former
    check_all(theatre)


@pytest.mark.sweep
def test_the_properties_hold_though_they_come_back_in_many_storms() -> None:
    for seed in range(60):
        with suppress(NeverAgreed):  # the majority of a view came back as others
            check_all(Storm(seed, restarts=True).play())


@pytest.mark.sweep
@pytest.mark.parametrize("first", SWEEP[::25])
def test_the_properties_hold_in_hundreds_of_storms(first: int) -> None:
    for seed in range(first, first + 25):
        try:
            check_all(Storm(seed).play())
        except AssertionError as error:
            error.add_note(f"in the storm with seed {seed}")
            raise
