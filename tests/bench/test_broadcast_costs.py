"""The costs of broadcasts are the textbook's."""

from __future__ import annotations

import pytest

from bench.broadcast_costs import Cost, measure, table


@pytest.mark.parametrize("members", [2, 3, 8])
def test_each_broadcast_costs_what_the_textbook_says(members: int) -> None:
    others = members - 1
    assert measure("beb", members) == Cost(others, others, 1, members)
    assert measure("rb", members) == Cost(others, others, 1, members)
    relayed = others + others**2
    assert measure("rb", members, sender_crashes=True) == Cost(relayed, relayed, 1, others)
    assert measure("urb", members) == Cost(members * others, others, 2, members)
    assert measure("iurb", members) == Cost(members * others, others, 2, members)


def test_the_table_names_every_broadcast() -> None:
    lines = table(4).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "beb",
        "rb",
        "rb, sender crashes",
        "urb",
        "iurb",
    ]
