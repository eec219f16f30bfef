"""The account of a community, minute by minute, from rows of traces in any order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bench.analysis.minutes import Community, alerts, latency_class, percentile

SPREAD = 10.0


def row(kind: str, node: str, time: float, event: str | None = None, **more: Any) -> dict[str, Any]:
    own = {"kind": kind, "node": node, "time": time, "event": event, "topic": "/a"}
    return {"community": "/a", "peer": None, "detail": None, **own, **more}


ROWS = [
    *(row("join", node, 0.0) for node in "abcd"),
    row("leave", "d", 50.0),
    row("publish", "a", 61.0, "1"),
    row("receive", "b", 61.5, "1", peer="a"),
    row("receive", "c", 75.0, "1", peer="b"),  # late: more than the spread time
    row("duplicate", "c", 76.0, "1", peer="a"),
    row("publish", "b", 70.0, "2"),
    row("receive", "a", 70.1, "2", peer="b"),  # c misses it
    row("receive", "x", 70.2, "2", peer="a"),  # x was never a member
    row("drop", "y", 70.2, "2", detail="parasite"),
    row("join", "d", 100.0),
]


def test_every_row_is_counted_in_the_minute_of_its_event() -> None:
    community = Community()
    for one in ROWS:
        community.note(one)
    assert community.close(129.0, SPREAD) == []  # events of the minute may still come
    [found] = community.close(131.0, SPREAD)
    assert found.pop("p50") == pytest.approx(0.2, rel=0.03)
    assert found.pop("p99") == pytest.approx(14.0, rel=0.03)
    assert found == {
        "minute": 60,
        "published": 2,
        "expected": 6,
        "delivered": 5,
        "missed": 1,
        "late": 1,
        "duplicates": 1,
        "parasites": 2,
    }
    assert community.close(1000.0, SPREAD) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_and_restarts_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    plain, torn = Community(), Community()
    for one in ROWS:
        plain.note(one)
    for one in chance.sample(ROWS, len(ROWS)):
        torn.note(one)
        torn = Community.unpack(torn.pack())
    assert torn.close(131.0, SPREAD) == plain.close(131.0, SPREAD)


def test_what_comes_after_the_account_is_closed_is_late() -> None:
    community = Community()
    for one in ROWS:
        community.note(one)
    community.close(131.0, SPREAD)
    community.note(row("receive", "c", 140.0, "2", peer="a"))
    [found] = community.close(1000.0, SPREAD)
    assert (found["minute"], found["published"], found["late"]) == (120, 0, 1)


def test_nothing_is_held_for_ever() -> None:
    community = Community()
    for number in range(1000):
        community.note(row("join", f"n{number}", float(number)))
        community.note(row("publish", f"n{number}", number + 0.1, str(number)))
        community.note(row("leave", f"n{number}", number + 0.5))
        community.close(number - SPREAD, SPREAD)
    assert len(community.events) <= 2 * SPREAD + 2
    assert len(community.moves) <= 3 * SPREAD + 2
    assert len(community.counts) <= 3


def test_percentiles_are_within_two_percent() -> None:
    classes: dict[int, int] = {}
    for number in range(1, 1001):
        own = latency_class(number / 1000)
        classes[own] = classes.get(own, 0) + 1
    assert percentile(classes, 0.5) == pytest.approx(0.5, rel=0.021)
    assert percentile(classes, 0.99) == pytest.approx(0.99, rel=0.021)
    assert percentile({}, 0.5) is None


def test_alerts_tell_what_is_wrong() -> None:
    fine = {"missed": 0, "expected": 10, "parasites": 0, "p99": 0.1}
    rows = [fine, fine | {"missed": 2}, fine | {"parasites": 1, "p99": 9.0}]
    told = [one["alert"] for one in alerts(rows, 0.1, 5.0)]
    assert told == ["2 of 10 receptions missed", "1 parasites; p99 9.00 s"]
    assert alerts([fine | {"missed": 1}], 0.1, 5.0) == []
