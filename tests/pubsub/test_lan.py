"""Nodes find each other by multicast DNS, here over the loopback interface."""

from __future__ import annotations

import asyncio

import pytest

from overlay.errors import UsageError
from pubsub import Node, lan
from pubsub.config import ConfigurationError

pytest.importorskip("zeroconf")

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


async def met(one: Node, other: Node) -> bool:
    """Whether an event of one node reaches the other: they are of one network."""
    async with other.subscribe("/lan") as events:
        await one.publish("/lan", "hello", wait="acked")
        try:
            async with asyncio.timeout(1.0 if one.config.keys != other.config.keys else 30.0):
                return (await anext(events)).data == "hello"
        except TimeoutError:
            return False


def test_nodes_that_start_together_find_each_other_and_no_other_network() -> None:
    async def main() -> None:
        nodes = [Node(discover=True, keys=[key]) for key in (KEY, KEY, OTHER_KEY)]
        await asyncio.gather(*(node.__aenter__() for node in nodes))
        try:
            assert await met(nodes[0], nodes[1])
            assert not await met(nodes[0], nodes[2])
        finally:
            await asyncio.gather(*(node.close() for node in nodes))

    asyncio.run(main())


def test_one_who_is_gone_is_not_found() -> None:
    async def main() -> None:
        async with Node(discover=True):
            pass
        async with Node(discover=True, join_timeout=2.0) as alone:
            assert alone.is_running, "it waits for no answer of the one that it cannot find"

    asyncio.run(main())


def test_mistakes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="name gateways"):
        Node(discover=True, mode="unstructured")
    monkeypatch.setitem(__import__("sys").modules, "zeroconf", None)

    async def main() -> None:
        with pytest.raises(UsageError, match=r"pip install 'camcast\[lan\]'"):
            await Node(discover=True).__aenter__()

    asyncio.run(main())


def test_a_fingerprint_tells_networks_apart_and_not_their_keys() -> None:
    assert lan.fingerprint(KEY) == lan.fingerprint(KEY) != lan.fingerprint(OTHER_KEY)
    assert KEY.hex()[:8] not in lan.fingerprint(KEY)
