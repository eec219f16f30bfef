"""Reports and the census: one node shows the network as the nodes tell it."""

from __future__ import annotations

import asyncio
import json
from math import inf, nan
from typing import Any

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency, Network
from pubsub.reports import CensusConfig, census_of, is_report, picture, report_of
from tests.pubsub.playground import Playground, play


@pytest.mark.parametrize("seed", range(2))
def test_a_census_finds_every_node_its_communities_and_its_rates(seed: int) -> None:
    async def main(playground: Playground) -> None:
        await playground.subscribers("/soccer", 5)
        await playground.subscribers("/soccer/italy", 4)
        silent = await playground.node(reports=False)
        publisher, watcher = await playground.node(), await playground.node()
        with census_of(watcher) as census:
            for number in range(100):
                await publisher.publish("/soccer/italy", number)
                await asyncio.sleep(0.2)
            shown = picture(watcher, census)
            json.dumps(shown)
            assert {one["node"] for one in shown["nodes"]} == {
                str(node.attachment.contact) for node in playground.nodes if node is not silent
            }
            italy = shown["communities"]["/soccer/italy"]
            assert len(italy["members"]) == 5
            assert sum(one["publishing"] for one in italy["members"]) == 1
            assert 3 < italy["rate"] < 7
            route = italy["route"]
            names = {one["node"] for one in italy["members"]}
            assert {one["to"] for one in route["hops"]} == names
            begin, *after = route["hops"]
            assert (begin["from"], begin["to"]) == ("", str(publisher.attachment.contact))
            came = {begin["to"]: 0}
            for hop in after:  # each was sent it by one that had it, a hop before
                assert came[hop["from"]] == hop["hops"] - 1
                came[hop["to"]] = hop["hops"]
            assert len(shown["communities"]["/soccer"]["members"]) == 5
            assert 3 < shown["communities"]["/soccer"]["rate"] < 7
            assert not [alert for alert in shown["alerts"] if "not answer" in alert]
            playground.crash(1)
            await asyncio.sleep(15)
            shown = picture(watcher, census)
            assert len(shown["nodes"]) == len(playground.nodes) - 2
            assert any("does not answer" in alert for alert in shown["alerts"])

    network = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.05)
    play(seed, main, "structured", network)


def test_a_report_that_has_not_its_form_is_not_shown() -> None:
    async def main(playground: Playground) -> None:
        node, _ = await playground.subscriber("/soccer")
        good = report_of(node)
        assert is_report(good)
        soccer = good["communities"]["/soccer"]
        bad: list[Any] = [
            None,
            [],
            {},
            {**good, "mode": 3},
            {**good, "at": "now"},
            {**good, "at": inf},
            {**good, "dropped": {"x": "many"}},
            *({**good, "counters": {"events_sent": much}} for much in (inf, -inf, nan, 1e308)),
            {**good, "counters": {1: 2}},
            {**good, "communities": {"/soccer": {}}},
            {**good, "communities": {"/soccer": {**soccer, "routes": {"1a": ["", "many", 1.0]}}}},
            {**good, "archive": {"/soccer": {"failure": 1}}},
            {**good, "services": {"distributor": 5}},
            {**good, "dropped": {str(number): 1 for number in range(2000)}},
        ]
        assert not any(map(is_report, bad))

    play(1, main, "structured")


def test_a_census_asks_no_more_nodes_than_it_is_told_to() -> None:
    async def main(playground: Playground) -> None:
        await playground.subscribers("/soccer", 8)
        watcher = await playground.node()
        with census_of(watcher, CensusConfig(most_nodes=3)) as census:
            await asyncio.sleep(10)
            assert len(census.nodes) == 3
        with pytest.raises(UsageError, match="more patience"):
            CensusConfig(refresh=5, patience=4)

    play(1, main, "structured")
