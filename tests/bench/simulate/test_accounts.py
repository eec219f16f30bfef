"""The books balance in every run: what is sent, received, new, twice, and by whom."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.simulate import (
    Failure,
    Protocol,
    SimulationResult,
    SimulationSettings,
    Tables,
    simulate,
    simulate_independently,
)

SETTINGS = st.fixed_dictionaries(
    {
        "community_sizes": st.lists(st.integers(4, 120), min_size=1, max_size=4).map(tuple),
        "c": st.floats(-3, 6),
        "g": st.floats(0, 20),
        "z": st.integers(1, 5),
        "loss": st.floats(0, 1),
        "failure": st.sampled_from(Failure),
        "failed": st.floats(0, 1),
        "tables": st.sampled_from(Tables),
        "clusters": st.integers(1, 4),
        "seed": st.integers(-(2**70), 2**70),
    }
)


def balance(result: SimulationResult) -> None:
    settings = result.settings
    for community in result.communities:
        assert 0 <= community.reached <= community.alive <= community.processes
        assert community.duplicates >= 0
        assert community.received_from_below <= community.received
        assert community.parasites == (0 if community.interested else community.received)
        assert min(community.infections, default=0) >= 0
        assert community.table_entries <= community.processes * community.largest_tables
        assert len(community.infections) == 0 or community.infections[-1] > 0
        if settings.protocol in (Protocol.CAMCAST, Protocol.MULTICAST):
            most = community.reached * settings.fanout(community.processes)
            outside = settings.protocol is Protocol.MULTICAST and settings.fanout(
                community.processes
            )
            assert community.sent_inside <= most + outside
            assert not community.parasites
    assert sum(c.received for c in result.communities) <= result.messages
    assert result.communities[settings.publish_level].infections[0] == 1
    assert sum(c.infections[0] for c in result.communities if c.infections) == 1
    assert result.rounds_to_silence == result.rounds + 1


@given(SETTINGS, st.sampled_from(Protocol), st.data())
@hypothesis_settings(max_examples=80, deadline=None)
def test_the_books_balance_whatever_the_settings(
    fields: dict[str, Any], protocol: Protocol, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, len(fields["community_sizes"]) - 1))
    balance(simulate(SimulationSettings(protocol=protocol, publish_level=level, **fields)))


def test_without_loss_and_failures_all_that_is_sent_arrives() -> None:
    for protocol in Protocol:
        result = simulate(SimulationSettings(protocol=protocol, loss=0, c=9, p_sel=0.5))
        assert sum(c.received for c in result.communities) == result.messages
        assert all(community.everyone for community in result.communities)
        settings = result.settings
        for community in result.communities:
            if protocol is Protocol.CAMCAST:
                expected = community.reached * settings.fanout(community.processes)
                assert community.sent_inside == expected


def test_the_publisher_is_alive_even_if_all_crash() -> None:
    for protocol in Protocol:
        result = simulate(SimulationSettings(protocol=protocol, failed=1, publish_level=1))
        assert [c.alive for c in result.communities] == [0, 1, 0]
        assert [c.reached for c in result.communities] == [0, 1, 0]


def test_what_climbs_is_what_comes_from_below() -> None:
    low, middle, root = simulate(SimulationSettings(loss=0, g=30)).communities
    assert (low.sent_upward, middle.sent_upward) == (
        middle.received_from_below,
        root.received_from_below,
    )
    assert low.sent_upward > 0
    assert root.sent_upward == low.received_from_below == 0


def test_table_entries_are_counted() -> None:
    largest = [c.largest_tables for c in simulate(SimulationSettings()).communities]
    assert largest == [14, 12, 7]
    # floor(ln N + 5) = 11, 9, 7, and a super-topic table of 3 below the root.
    entries = [c.table_entries for c in simulate(SimulationSettings()).communities]
    assert entries == [1000 * 14, 100 * 12, 10 * 7]
    entries = [
        c.table_entries
        for c in simulate(SimulationSettings(protocol=Protocol.MULTICAST)).communities
    ]
    assert entries == [1000 * 11, 100 * 20, 10 * 27]
    entries = [
        c.table_entries
        for c in simulate(SimulationSettings(protocol=Protocol.BROADCAST)).communities
    ]
    assert entries == [1000 * 12, 100 * 12, 10 * 12]
    # Ten clusters of 111: floor(4.71 + 5) inside and floor(2.30 + 5) across.
    entries = [
        c.table_entries
        for c in simulate(SimulationSettings(protocol=Protocol.HIERARCHICAL)).communities
    ]
    assert entries == [1000 * 16, 100 * 16, 10 * 16]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_camcast_reaches_only_the_publishers_community_and_those_above(level: int) -> None:
    result = simulate(SimulationSettings(publish_level=level, p_sel=1, a=3, loss=0))
    for community in result.communities:
        assert community.interested == (community.level >= level)
        assert (community.reached > 0) == community.interested
        assert (community.received > 0) == community.interested


def test_the_same_settings_give_the_same_result() -> None:
    for protocol in Protocol:
        settings = SimulationSettings(protocol=protocol, failed=0.2, seed=11)
        assert simulate(settings) == simulate(settings)
        assert simulate(settings) != simulate(dataclasses.replace(settings, seed=12))


def test_results_do_not_depend_on_threads() -> None:
    settings = SimulationSettings(community_sizes=(5000, 100), failed=0.1)
    alone = simulate_independently(settings, 8)
    found: dict[int, list[SimulationResult]] = {}

    def work(number: int) -> None:
        found[number] = simulate_independently(settings, 8)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == alone for number in range(4))


def test_a_fixed_table_seed_keeps_the_tables_and_nothing_else() -> None:
    one = SimulationSettings(tables=Tables.SCAMP, seed=1, table_seed=5)
    other = dataclasses.replace(one, seed=2)
    entries = [[c.table_entries for c in simulate(each).communities] for each in (one, other)]
    assert entries[0] == entries[1]
    assert simulate(one) != simulate(other)
