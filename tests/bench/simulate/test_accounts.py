"""The books balance in every run: what is sent, received, new, twice, and by whom."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.experiment import FAILURES_OF_TIER, MODES_OF_TIER, Experiment
from bench.results import CommunityResult
from bench.simulate import SIMULATED, simulate
from bench.simulate.runs import run_communities
from tests.bench.simulate.asked import asked, events, everyone, known, messages, reached, received

SETTINGS = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(4, 120), min_size=1, max_size=4).map(tuple),
        "c": st.floats(-3, 6),
        "g": st.floats(1, 20),
        "z": st.integers(1, 5),
        "loss": st.floats(0, 1, exclude_max=True),
        "failure": st.sampled_from(FAILURES_OF_TIER["simulate"]),
        "failed": st.floats(0, 1, exclude_max=True),
        "mode": st.sampled_from(MODES_OF_TIER["simulate"]),
        "seed": st.integers(-(2**63), 2**63 - 1),
    }
)


def balance(experiment: Experiment, event: list[CommunityResult]) -> None:
    for community in event:
        assert known(community.duplicates) >= 0
        useful = known(community.useful)
        wanted = community.community >= experiment.publish_level
        publishers = community.community == experiment.publish_level
        assert 0 <= useful + publishers <= community.alive <= community.processes
        assert community.reached == (useful + publishers if wanted else None)
        assert (community.rounds is not None) == bool(community.reached)
        assert community.parasites == (0 if wanted else received(community))
        assert known(community.table_entries) <= known(community.largest_table)
        if experiment.protocol in ("camcast", "multicast") and experiment.mode == "uniform":
            fanout = experiment.fanout(community.processes)
            outside = fanout if experiment.protocol == "multicast" else 0
            assert known(community.messages_inside) <= (community.reached or 0) * fanout + outside
            assert not community.parasites
    assert sum(map(received, event)) <= messages(event)


@given(SETTINGS, st.sampled_from(SIMULATED), st.data())
@hypothesis_settings(max_examples=80, deadline=None)
def test_the_books_balance_whatever_the_settings(
    fields: dict[str, Any], protocol: str, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, len(fields["sizes"]) - 1))
    experiment = asked(protocol=protocol, publish_level=level, **fields)
    balance(experiment, simulate(experiment))


def test_only_the_publisher_has_the_event_in_round_0() -> None:
    for level in range(3):
        found = run_communities(asked(publish_level=level), (1000, 100, 10), 0)
        first = [sum(run.infections[:1]) for run in found]
        assert first == [int(other == level) for other in range(3)]


def test_without_loss_and_failures_all_that_is_sent_arrives() -> None:
    for protocol in SIMULATED:
        experiment = asked(protocol=protocol, loss=0.0, c=9.0, p_sel=0.5)
        event = simulate(experiment)
        assert sum(map(received, event)) == messages(event)
        assert everyone(event)
        for own in event:
            if protocol == "camcast":
                assert own.messages_inside == reached(own) * experiment.fanout(own.processes)


def test_the_publisher_is_alive_even_if_all_crash() -> None:
    for protocol in SIMULATED:
        event = simulate(asked(protocol=protocol, failed=1 - 1e-12, publish_level=1))
        assert [own.alive for own in event] == [0, 1, 0]
        assert [own.reached for own in event] == [None, 1, 0]


def test_what_climbs_is_what_comes_from_below() -> None:
    # Communities of one process get nothing but from below.
    low, middle, root = simulate(asked(sizes=(1000, 1, 1), z=1, loss=0.0, g=30.0))
    assert (low.messages_upward, middle.messages_upward) == (received(middle), received(root))
    assert known(low.messages_upward) > 0
    assert root.messages_upward == 0


def test_table_entries_are_counted() -> None:
    assert [own.largest_table for own in simulate(asked())] == [14, 12, 7]
    # floor(ln N + 5) = 11, 9, 7, and a super-topic table of 3 below the root.
    entries = {
        protocol: [own.table_entries for own in simulate(asked(protocol=protocol))]
        for protocol in SIMULATED
    }
    assert entries["camcast"] == [14, 12, 7]
    assert entries["multicast"] == [11, 20, 27]
    assert entries["broadcast"] == [12, 12, 12]
    # Ten clusters of 111: floor(4.71 + 5) inside and floor(2.30 + 5) across.
    assert entries["hierarchical"] == [16, 16, 16]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_camcast_reaches_only_the_publishers_community_and_those_above(level: int) -> None:
    for own in simulate(asked(publish_level=level, p_sel=1.0, a=3.0, loss=0.0)):
        assert bool(own.reached) == (received(own) > 0) == (own.community >= level)


def test_the_same_experiment_gives_the_same_result() -> None:
    for protocol in SIMULATED:
        experiment = asked(protocol=protocol, failed=0.2, seed=11)
        assert simulate(experiment) == simulate(experiment)
        assert simulate(experiment) != simulate(dataclasses.replace(experiment, seed=12))
        assert simulate(experiment) != simulate(experiment, 1)


def test_results_do_not_depend_on_threads() -> None:
    experiment = asked(sizes=(5000, 100), failed=0.1)
    alone = events(experiment, 8)
    found: dict[int, list[list[CommunityResult]]] = {}

    def work(number: int) -> None:
        found[number] = events(experiment, 8)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == alone for number in range(4))
