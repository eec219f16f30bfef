"""The small parts by hand: parameters, tables, the upward draw."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.camcast.links import SuperTable, SuperTables
from pubsub.camcast.parameters import ParameterError, Parameters
from pubsub.camcast.upward import draw_upward
from pubsub.topic import Topic

CONTACTS = tuple(numbered_contact(number) for number in range(10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"c": -1},
        {"g": 0},
        {"a": 4},
        {"z": 0},
        {"tau": 4},
        {"c": math.nan},
        {"lease": 0},
        {"rotation": 2},
        {"z": "3"},
        {"sure_links": 2},
    ],
)
def test_a_parameter_out_of_range_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=f"^{next(iter(wrong))} must be"):
        Parameters(**wrong)


@given(st.floats(1, 1e9), st.floats(0, 20))
def test_the_fanout_is_the_floor_of_ln_n_plus_c(size: float, c: float) -> None:
    assert Parameters(c=c).fanout(size) == math.floor(math.log(size) + c)


@given(st.integers(1, 10_000))
def test_on_average_g_processes_are_links(size: int) -> None:
    parameters = Parameters(g=5)
    assert size * parameters.p_sel(size) == pytest.approx(min(size, 5))


def test_the_upward_draw_follows_its_probabilities() -> None:
    parameters, source = Parameters(g=5, a=1, z=3, sure_links=False), random.Random(1)
    draws = [
        draw_upward(CONTACTS[:3], parameters, 100, source, from_outside=False, probability=None)
        for _ in range(40_000)
    ]
    links = 5 / 100
    expected = {k: links * math.comb(3, k) * (1 / 3) ** k * (2 / 3) ** (3 - k) for k in (1, 2, 3)}
    for count, probability in expected.items():
        seen = sum(len(draw) == count for draw in draws) / len(draws)
        spread = 4 * math.sqrt(probability / len(draws))
        assert abs(seen - probability) < spread, (count, seen, probability)


def test_whoever_brings_an_event_in_and_everyone_in_a_very_small_community_sends_it_up() -> None:
    source = random.Random(2)
    for _ in range(200):
        for size, here in ((1000, True), (5, False), (1, True)):
            assert draw_upward(
                CONTACTS[:3], Parameters(), size, source, from_outside=here, probability=None
            )
    assert not draw_upward((), Parameters(), 1, source, from_outside=True, probability=None)


def test_merge_fills_free_places_then_stale_ones_and_leaves_fresh_ones() -> None:
    table = SuperTable(Topic.of("/soccer"))
    for time, contact in enumerate(CONTACTS[:3]):
        assert table.merge(contact, float(time), size=3, stale_before=-1)
    assert not table.merge(CONTACTS[3], 3.0, size=3, stale_before=0)
    assert table.merge(CONTACTS[4], 4.0, size=3, stale_before=1)
    assert [c.id for c in table.contacts] == [CONTACTS[i].id for i in (1, 2, 4)]
    assert table.room(3, stale_before=3) == 2


def test_super_tables_never_look_beyond_what_is_found() -> None:
    changes: list[tuple[str, Contact, bool]] = []
    tables = SuperTables(
        Topic.of("/a/b/c"), lambda name: False, lambda *change: changes.append(change)
    )
    assert [t.name for t in tables.missing()] == ["/a/b"]
    assert tables.widen()
    assert [t.name for t in tables.missing()] == ["/a/b", "/a"]
    table = tables.table("/a")
    assert table is not None
    table.merge(CONTACTS[0], 0.0, 3, 0.0)
    assert tables.covered()
    assert [t.topic.name for t in tables.linked()] == ["/a"]
    assert tables.table("/") is None
    nearer = tables.table("/a/b")
    assert nearer is not None
    nearer.merge(CONTACTS[1], 0.0, 3, 0.0)
    tables.prune()
    assert [t.topic.name for t in tables.linked()] == ["/a/b"]
    assert len(tables) == 1
    assert tables.missing() == []
    tables.drop(CONTACTS[1].id)
    assert [t.name for t in tables.missing()] == ["/a/b"]
    assert changes == [
        ("/a", CONTACTS[0], True),
        ("/a/b", CONTACTS[1], True),
        ("/a", CONTACTS[0], False),
        ("/a/b", CONTACTS[1], False),
    ]
