"""A network that changes its key while its nodes run and exchange events."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from overlay.errors import NetworkError, UsageError
from overlay.virtual import Network, nth_host
from pubsub import Node
from tests.pubsub.playground import received

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
STEPS = [(OLD, NEW), (NEW, OLD), (NEW,)]


def node_at(number: int, key: bytes) -> Node:
    bootstrap = [f"{nth_host(0)}:4000"] if number else []
    return Node(listen=f"{nth_host(number)}:4000", keys=[key], bootstrap=bootstrap, join_timeout=5)


def test_events_go_on_while_a_network_changes_its_key() -> None:
    async def main() -> None:
        async with node_at(0, OLD) as one, node_at(1, OLD) as other:
            async with one.subscribe("/a") as events:
                await other.publish("/a", "before")
                for step, ring in enumerate(STEPS):
                    one.rekey(ring)
                    await other.publish("/a", step, wait="acked")
                    other.rekey(ring)
                    await other.publish("/a", step, wait="acked")
                values = [event.data for event in await received(events, 7)]
                assert values == ["before", 0, 0, 1, 1, 2, 2]
            async with node_at(2, NEW):
                pass
            with pytest.raises(NetworkError, match="network key"):
                async with node_at(3, OLD):
                    pass

    Network(1).run(main())


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.sweep) for s in (2, 3, 4))]
)
def test_no_event_is_lost_while_a_lossy_network_changes_its_key_node_by_node(seed: int) -> None:
    """Every node takes each step when all have taken the one before, as the manual says; events go on."""
    count = 5

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes, subscriptions = [], []
            for number in range(count):
                node = await stack.enter_async_context(node_at(number, OLD))
                nodes.append(node)
                subscriptions.append(await stack.enter_async_context(node.subscribe("/a")))
            published = 0

            async def publish() -> None:
                nonlocal published
                while True:
                    await nodes[published % count].publish("/a", published)
                    published += 1
                    await asyncio.sleep(0.1)

            publishing = asyncio.ensure_future(publish())
            for ring in STEPS:
                for node in nodes:
                    await asyncio.sleep(0.5)
                    node.rekey(ring)
            await asyncio.sleep(1)
            publishing.cancel()
            await asyncio.sleep(10)
            assert published > 50
            for events in subscriptions:
                async with asyncio.timeout(5):
                    had = [(await anext(events)).data for _ in range(published)]
                assert sorted(had) == list(range(published))

    Network(seed, loss=0.1).run(main())


@pytest.mark.parametrize("wrong", [(), (b"short",), (OLD, OLD), OLD])
def test_a_ring_that_is_none_is_refused_and_the_old_one_stays(wrong: tuple[bytes, ...]) -> None:
    async def main() -> None:
        async with node_at(0, OLD) as node:
            with pytest.raises(UsageError, match="network key"):
                node.rekey(wrong)
            async with node_at(1, OLD):
                pass
        async with Node(listen=f"{nth_host(2)}:4000") as plain:
            with pytest.raises(UsageError, match="without a key"):
                plain.rekey([OLD])

    Network(1).run(main())


def test_a_node_waits_for_its_bootstrap_as_long_as_it_was_told_to() -> None:
    async def main() -> None:
        early = Node(
            listen=f"{nth_host(1)}:4000", bootstrap=[f"{nth_host(0)}:4000"], join_timeout=300
        )
        joining = asyncio.create_task(early.__aenter__())
        await asyncio.sleep(200)
        assert not joining.done()
        async with Node(listen=f"{nth_host(0)}:4000") as late, late.subscribe("/a") as events:
            await joining
            await early.publish("/a", "here")
            assert [event.data for event in await received(events, 1)] == ["here"]
            await early.close()

    Network(2).run(main())
