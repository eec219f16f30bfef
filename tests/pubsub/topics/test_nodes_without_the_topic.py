"""Nodes that crashed as participants and run again without any strong topics, on the virtual network."""

from __future__ import annotations

import asyncio

import pytest

from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Network
from tests.pubsub.topics.strong_nodes import StrongNodes
from tests.pubsub.topics.test_strong_topic import play


@pytest.mark.parametrize("down", [0.3, 20.0], ids=["unnoticed", "suspected"])
def test_one_that_runs_again_and_says_nothing_is_in_no_view(down: float) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other, gone = [await nodes.start() for _ in range(3)]
        await asyncio.sleep(5)
        assert len(one.strong.view.members) == 3
        network.crash(gone.host)
        await asyncio.sleep(down)
        network.restart(gone.host)
        nodes.nodes.remove(gone)
        config = RuntimeConfig(EndpointConfig(f"{gone.host}:4000"))
        runtime = await network.spawn(gone.host, Runtime.open(config, gone.identity))
        await asyncio.sleep(20)
        for node in (one, other):
            assert node.strong.is_stable
            assert node.strong.view.members == tuple(sorted((one.strong.me, other.strong.me)))
        await runtime.close()

    play(script)
