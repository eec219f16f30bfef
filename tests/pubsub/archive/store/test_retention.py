"""What is forgotten, and what is not: by age, count and size, and who still waits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from overlay.errors import UsageError
from pubsub.archive.store import (
    AdvanceSync,
    Deregister,
    Drop,
    EntityGap,
    GapsTold,
    PutEntity,
    Retention,
    Scan,
    Store,
)
from pubsub.archive.store.store import Holding
from pubsub.reliable.numbers import Span
from tests.pubsub.archive.store.conftest import Opener
from tests.pubsub.archive.store.schedules import PUBLISHERS, event

EVERYTHING_GONE = Retention(max_count=0)


def filled(opener: Opener) -> Store:
    """Ten events of 100 bytes, one a second; anna waits for the even ones, and nobody for the others."""
    store = opener()
    changes = [
        event(n, time=float(n), body=b"x" * 100, destinations=() if n % 2 else ("anna",))
        for n in range(1, 11)
    ]
    store.write([PutEntity("/soccer", "anna", 0, b""), *changes])
    store.sync()
    return store


def forget(store: Store, retention: Retention, now: float = 10.0) -> list[int]:
    """Apply the limits; what is left."""
    plan = Scan().plan(store, "/soccer", retention, now)
    if plan.gone:
        store.write([Drop("/soccer", plan.spans)])
        store.sync()
    return [holding.sequence for holding in store.holdings("/soccer", 0, 100)]


def assert_keeps_what_is_waited_for(store: Store) -> None:
    assert forget(store, EVERYTHING_GONE) == [2, 4, 6, 8, 10]
    assert [one.sequence for one in store.holdings("/soccer", 0, 100) if "anna" in one.waiting] == [
        *range(2, 11, 2)
    ]


def test_nothing_goes_that_a_registered_entity_has_not_had(opener: Opener) -> None:
    assert_keeps_what_is_waited_for(filled(opener))


@pytest.mark.parametrize(
    "retention", [Retention(max_age=3.5), Retention(max_count=4), Retention(max_bytes=400)]
)
def test_limits_leave_the_newest(opener: Opener, retention: Retention) -> None:
    store = filled(opener)
    store.write([AdvanceSync("/soccer", "anna", 10)])
    store.sync()
    assert forget(store, retention) == [7, 8, 9, 10]
    assert (store.count("/soccer"), store.size("/soccer")) == (4, 400)
    assert forget(store, retention) == [7, 8, 9, 10]


def test_nothing_is_kept_for_one_who_has_left(opener: Opener) -> None:
    store = filled(opener)
    store.write([Deregister("/soccer", "anna")])
    store.sync()
    assert forget(store, EVERYTHING_GONE) == []
    assert store.last_sequence("/soccer") == 10


def test_when_told_so_unseen_events_go(opener: Opener) -> None:
    store = filled(opener)
    assert forget(store, Retention(max_count=5, drop_unseen=True)) == [6, 7, 8, 9, 10]
    assert [one.sequence for one in store.holdings("/soccer", 0, 100) if "anna" in one.waiting] == [
        6,
        8,
        10,
    ]


def test_gaps_are_kept_until_their_entity_has_been_told(opener: Opener) -> None:
    store = filled(opener)
    gaps = (
        EntityGap("anna", Span(2, 2), PUBLISHERS[0], 2, 2, "forgotten"),
        EntityGap.unnamed("anna", Span(4, 4), "lost"),
    )
    store.write([Drop("/soccer", (Span(1, 5),), gaps)])
    store.sync()
    store.close()
    store = opener()
    entity = store.entity("/soccer", "anna")
    assert entity is not None
    assert entity.gaps == gaps
    store.write([GapsTold("/soccer", "anna")])
    store.sync()
    entity = store.entity("/soccer", "anna")
    assert entity is not None
    assert entity.gaps == ()


def test_without_limits_nothing_goes(opener: Opener) -> None:
    assert Scan().plan(filled(opener), "/soccer", Retention(), 1e9).gone == []


def test_an_inventory_of_many_pages_is_walked_to_the_end(opener: Opener) -> None:
    store = opener()
    store.write([event(n, destinations=()) for n in range(1, 2502)])
    store.sync()
    assert forget(store, Retention(max_count=1)) == [2501]


@pytest.mark.parametrize("field", ["max_age", "max_count", "max_bytes"])
@pytest.mark.parametrize("limit", [-1, math.nan])
def test_a_limit_that_is_not_zero_or_more_is_refused(field: str, limit: float) -> None:
    with pytest.raises(UsageError, match=field):
        Retention(**{field: limit})


def test_a_retention_that_ignores_who_waits_is_caught(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(opener)
    real = store.holdings

    def forgetful(*arguments: Any) -> list[Holding]:
        return [replace(one, waiting=()) for one in real(*arguments)]

    monkeypatch.setattr(store, "holdings", forgetful)
    with pytest.raises(AssertionError):
        assert_keeps_what_is_waited_for(store)
