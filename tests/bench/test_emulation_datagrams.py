"""Datagrams are counted by what they carry."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from bench.experiment import Experiment
from bench.tiers.population import DatagramCount, Population, name_of
from bench.workloads import emulator
from bench.workloads.emulator import WORKLOAD, sizes_for, time_until_rest
from overlay.virtual import Network, nth_host
from pubsub import Node


def test_every_datagram_of_two_nodes_has_a_name() -> None:
    network = Network(1)
    count = DatagramCount()

    async def main() -> None:
        first = f"{nth_host(0)}:4000"
        two = Node(listen=f"{nth_host(1)}:4000", bootstrap=[first])
        async with Node(listen=first) as one, one.subscribe("/t"), two:
            await two.publish("/t", 1)
            await asyncio.sleep(5)

    with network.rule(count):
        network.run(main())
    taken = count.take()
    assert sum(taken.values()) == network.stats.sent
    assert {
        "Ping",
        "FindNode",
        "Query",
        "CheckAnswer",
        "Copy",
        "channel ack",
    } <= set(taken)
    assert "malformed" not in taken
    assert not count.take()


def test_what_is_not_a_datagram_of_ours_is_malformed() -> None:
    assert name_of(bytes(24)) == name_of(bytes(60)) == "malformed"


def test_the_time_until_rest_is_that_of_the_last_busy_window() -> None:
    assert time_until_rest([1] * 30, near_rest=2) == 0
    assert time_until_rest([9] * 5 + [1] * 25, near_rest=2) == 13
    assert time_until_rest([1] * 25 + [9] * 5, near_rest=2) is None


def test_a_small_network_goes_through_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SETTLE_SECONDS", 20.0), ("REST_SECONDS", 10.0), ("WATCH_SECONDS", 20)):
        monkeypatch.setattr(emulator, name, seconds)
    options = WORKLOAD.defaults(quick=True)
    # Eleven of the sixteen are in the lowest community: with the fewest whom the first to be ready can see
    # there, each has two links. Eight are too few, since floor(ln 7) is one link, and that loses events.
    options.nodes, options.modes, options.events, options.kinds = [16], ["structured"], 1, True
    rows = list(WORKLOAD.run(options))
    found = {(row.settings.get("phase"), row.metric) for row in rows}
    for phase in (
        "join",
        "1 events",
        "rest",
        "crash of 30%",
        "joins of 30%",
        "rest, a light member",
    ):
        assert (phase, "datagrams") in found
    assert {(phase, "peak") for phase in ("crash of 30%", "joins of 30%")} <= found
    assert any(row.metric == "reached" and row.value > 50 for row in rows)
    total = {r.settings["phase"]: r.value for r in rows if r.metric == "datagrams"}
    kinds = sum(
        r.value for r in rows if r.metric == "datagrams of a kind" and r.settings["phase"] == "rest"
    )
    assert abs(kinds - total["rest"]) < 0.01


def test_it_is_seen_when_events_reach_everyone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "CUT_SECONDS", (20.0,))
    monkeypatch.setattr(emulator, "HEALED_NETWORKS", 1)
    monkeypatch.setattr(emulator, "EVENTS", 12)
    monkeypatch.setattr(emulator, "BEFORE_CUT_SECONDS", 10.0)
    options = WORKLOAD.defaults(quick=True)
    options.nodes, options.modes, options.stages = [12], ["structured"], ["heal"]
    found = {row.metric: row.value for row in WORKLOAD.run(options)}
    assert found["healed"] == 1
    assert found["heal"] == found["slowest"] <= 10
    with monkeypatch.context() as never:
        never.setattr(Network, "heal", lambda network: None)
        found = {row.metric: row.value for row in WORKLOAD.run(options)}
    assert found == {"healed": 0}


def test_three_communities_make_up_the_nodes() -> None:
    assert sizes_for(118) == (84, 27, 7)
    assert sum(sizes_for(1000)) == 1000


@pytest.mark.parametrize("mode", ["unstructured", "structured"])
def test_newcomers_are_told_of_the_living_when_the_first_nodes_have_crashed(
    mode: str, tmp_path: Path
) -> None:
    class First(random.Random):
        def sample(self, population: Any, k: int, **_: Any) -> list[Any]:
            return list(population)[:k]

    experiment = Experiment(suite="", figure="", tier="emulate", mode=mode, sizes=(4, 4))
    network = Network(1)

    async def live() -> int:
        async with Population(experiment, network, tmp_path) as population:
            await population.start()
            population.crash(0.5, First())
            await population.join(0)
            return len(population.hosts())

    assert network.run(live()) == 5
