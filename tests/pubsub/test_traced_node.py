"""A node's trace says what was delivered, announced and dropped, no more and no less than its counters do."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pubsub import Node, Parameters
from pubsub.event import Batch, Copy, Head, make_block
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
                await asyncio.sleep(0)  # what is published in one turn is delivered together
            assert rows(node, "deliver") == {("deliver", "/a/*"): delivered}
            assert node.metrics.counter("events_delivered", "").value == delivered

    play(41, main)


def test_a_full_queue_and_a_late_event_are_in_the_trace(tmp_path: Path) -> None:
    async def main(p: Playground) -> None:
        node = await p.node(trace=tmp_path / "t.jsonl")
        async with node.subscribe("/a", queue=2, order="fifo") as events:
            for _ in range(5):
                await node.publish("/a")
                await asyncio.sleep(0)
            again = events.waiting()[0]
            events.offer(Batch(again.origin, again.sequence, [None]))
            assert rows(node, "drop") == {("drop", "queue_full"): 3, ("drop", "late"): 1}

    play(42, main)


def crafted(data: bytes = b"\xc0", count: int = 1, **changes: Any) -> Copy:
    """A copy of a block that no node would send."""
    encoded = make_block(bytes(28), 1, Head("/a"), [data] * count).encoded
    return replace(Copy("/a", False, 1, encoded, b""), **changes)


TOO_DEEP = b"\x91" * 40 + b"\xc0"


@pytest.mark.parametrize(
    ("copy", "reason", "count"),
    [
        (crafted(b"\xc1"), "malformed_event", 1),
        (crafted(TOO_DEEP, 3), "malformed_data", 3),
        (crafted(block=b"short"), "malformed_event", 1),
        (crafted(hops=-1), "malformed_event", 1),
        (crafted(community="/left", count=5), "leaving", 5),
        (crafted(community="/never"), "parasite", 1),
    ],
)
def test_a_copy_that_is_not_taken_is_in_the_trace_with_its_reason(
    tmp_path: Path, copy: Copy, reason: str, count: int
) -> None:
    async def main(p: Playground) -> None:
        _, _ = await p.subscriber("/left")
        node = await p.node(trace=tmp_path / "t.jsonl")
        async with node.subscribe("/a"):
            async with node.subscribe("/left"):
                pass
            node._process.receive(p.nodes[0]._attached().contact, copy)
            assert rows(node, "drop") == {("drop", reason): count}
            dropped = node.metrics.family("events_dropped", "reason", "")
            assert dropped.values == {reason: count}

    play(43, main)


def test_what_waits_for_a_lease_that_never_comes_is_in_the_trace(tmp_path: Path) -> None:
    async def main(p: Playground) -> None:
        await p.subscriber("/a")
        node = await p.node(trace=tmp_path / "t.jsonl", parameters=Parameters(lease=1))
        await node.publish("/a")
        p.crash(0)
        node._process.leases.revoke(p.nodes[0].id, "/a")
        receipt = await node.publish("/a", wait="acked")
        assert receipt.failed == 1
        ((kind, reason),) = rows(node, "drop")
        assert kind == "drop"
        assert reason in ("no_answer", "suspected")

    play(44, main)


def test_announcements_are_in_the_trace_one_row_an_event_and_peer(tmp_path: Path) -> None:
    async def main(p: Playground) -> None:
        await p.subscribers("/a", 3)
        node = await p.node(trace=tmp_path / "t.jsonl", links="datagram")
        receipts = [await node.publish("/a", dissemination="lazy") for _ in range(4)]
        await asyncio.sleep(1)
        node.flush_trace()
        lines = map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())
        announced = [row for row in lines if row["kind"] == "announce"]
        peers = [other.id.hex() for other in p.nodes[:3]]
        wanted = {(receipt.id.hex(), peer) for receipt in receipts for peer in peers}
        assert {(row["event"], row["peer"]) for row in announced} == wanted
        assert len(announced) == len(wanted)
        assert all(row["topic"] == "/a" and "hops" not in row for row in announced)

    play(45, main, mode="structured")


def test_an_event_that_a_node_has_in_one_community_is_received_in_the_others_it_is_in(
    tmp_path: Path,
) -> None:
    async def main(p: Playground) -> None:
        publisher, _ = await p.subscriber("/a/b")
        node = await p.node(trace=tmp_path / "t.jsonl")
        async with node.subscribe("/a"), node.subscribe("/a/b"):
            theirs = (await publisher.publish("/a/b", wait="acked")).id.hex()
            await asyncio.sleep(5)
            own = (await node.publish("/a/b", wait="acked")).id.hex()
        node.flush_trace()
        lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
        had = Counter(
            (row["topic"], row["event"], row["kind"], "peer" in row)
            for row in lines
            if row["kind"] in ("receive", "publish")
        )
        first = next(row["topic"] for row in lines if row.get("event") == theirs and "peer" in row)
        second = {"/a": "/a/b", "/a/b": "/a"}[first]
        assert had == {
            (first, theirs, "receive", True): 1,
            (second, theirs, "receive", False): 1,
            ("/a/b", own, "publish", False): 1,
            ("/a", own, "receive", False): 1,
        }

    play(45, main)


def test_who_enters_and_leaves_a_super_topic_table_is_in_the_trace_once(tmp_path: Path) -> None:
    async def main(p: Playground) -> None:
        above = await p.node()
        async with above.subscribe("/a"):
            node = await p.node(trace=tmp_path / "t.jsonl")
            async with node.subscribe("/a/b"):
                await asyncio.sleep(60)
                assert rows(node, "table") == {("table", "added super /a"): 1}
                await above.close()
                await asyncio.sleep(10)
                assert rows(node, "table") == {
                    ("table", "added super /a"): 1,
                    ("table", "removed super /a"): 1,
                }

    play(46, main, "structured", parameters=Parameters(lease=8, link_interval=2))
