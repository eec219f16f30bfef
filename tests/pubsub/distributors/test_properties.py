"""The paper's properties under crashes, partitions, false suspicions, loss, duplication and reordering."""

from __future__ import annotations

import pytest

from tests.pubsub.distributors.properties import check_all
from tests.pubsub.distributors.storm import Storm

QUICK = range(12)
SWEEP = range(12, 212)


@pytest.mark.parametrize("seed", QUICK)
def test_the_properties_hold_in_a_storm(seed: int) -> None:
    check_all(Storm(seed).play())


@pytest.mark.sweep
@pytest.mark.parametrize("first", SWEEP[::25])
def test_the_properties_hold_in_hundreds_of_storms(first: int) -> None:
    for seed in range(first, first + 25):
        try:
            check_all(Storm(seed).play())
        except AssertionError as error:
            error.add_note(f"in the storm with seed {seed}")
            raise
