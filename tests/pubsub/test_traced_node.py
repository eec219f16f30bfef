"""A node's trace says what was delivered, announced and dropped, no more and no less than its counters do."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pubsub import Node
from tests.pubsub.playground import Playground, play

Rows = Counter[tuple[str, str | None]]


def rows(node: Node, *kinds: str) -> Rows:
    """How many rows of these kinds there are, by kind and detail."""
    node.flush_trace()
    assert node.config.trace is not None
    lines = map(json.loads, Path(node.config.trace).read_text().splitlines())
    return Counter((row["kind"], row.get("detail")) for row in lines if row["kind"] in kinds)


@pytest.mark.parametrize(
    ("options", "delivered"),
    [
        ({"queue": 2}, 4),
        ({"queue": 2, "order": "fifo"}, 4),
        ({"queue": 2, "overflow": "drop_newest"}, 2),
    ],
)
def test_only_what_a_subscription_took_is_delivered(
    tmp_path: Path, options: dict[str, object], delivered: int
) -> None:
    async def main(p: Playground) -> None:
        node = await p.node(trace=tmp_path / "t.jsonl")
        async with node.subscribe("/a/*", **options), node.subscribe("/a/x/**"):  # type: ignore[call-overload]
            for number in range(4):
                await node.publish("/a/b/c", number)
                await node.publish("/a/b", number)
            assert rows(node, "deliver") == {("deliver", "/a/*"): delivered}
            assert node.metrics.counter("events_delivered", "").value == delivered

    play(41, main)
