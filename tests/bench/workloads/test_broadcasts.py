"""The costs of broadcasts are the textbook's."""

from __future__ import annotations

import pytest

from bench.workloads.broadcasts import TEXTBOOK, WORKLOAD, Cost, measure


@pytest.mark.parametrize("members", [2, 3, 8])
def test_each_broadcast_costs_what_the_textbook_says(members: int) -> None:
    others = members - 1
    assert measure("beb", members) == Cost(others, others, 1, members)
    assert measure("rb", members) == Cost(others, others, 1, members)
    relayed = others + others**2
    assert measure("rb", members, sender_crashes=True) == Cost(relayed, relayed, 1, others)
    assert measure("urb", members) == Cost(members * others, others, 2, members)
    assert measure("iurb", members) == Cost(members * others, others, 2, members)


def test_every_broadcast_is_measured_and_equals_the_textbook() -> None:
    options = WORKLOAD.defaults(quick=True)
    options.members, options.gossip_members, options.runs = 4, 30, 1
    rows = list(WORKLOAD.run(options))
    costs = WORKLOAD.table("costs").lines(rows)
    assert [line[0] for line in costs[1:]] == ["beb", "rb", "rb, sender crashes", "urb", "iurb"]
    assert len(costs) == 1 + len(TEXTBOOK)
    assert all(line[2] == line[3] and line[5] == line[6] for line in costs[1:])
    assert not WORKLOAD.is_wrong(rows)
    gossip = WORKLOAD.table("gossip").lines(rows)
    assert gossip[0][-1] == "closed form"
    assert len(gossip) == 1 + 7
