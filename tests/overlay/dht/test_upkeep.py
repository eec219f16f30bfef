"""What a node does by itself: it notices deaths, heals, refreshes, and costs little."""

from __future__ import annotations

import asyncio

from overlay.dht import DhtConfig
from overlay.virtual import Latency, Network
from tests.overlay.dht.swarm import Swarm, key


def test_idle_nodes_notice_the_dead(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(20)
        dead = [member.contact for member in swarm.members[5:11]]
        for member in swarm.members[5:11]:
            swarm.crash(member)
        await asyncio.sleep(180)
        for member in swarm.members:
            assert [contact for contact in member.dht.known_contacts() if contact in dead] == []

    net.run(main())


def test_two_halves_of_a_network_find_each_other_after_a_partition(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(k=8))
        await swarm.grow(24)
        left, right = swarm.members[:12], swarm.members[12:]
        net.partition({m.host for m in left}, {m.host for m in right})
        await asyncio.sleep(600)
        others = [member.contact for member in right]
        assert all(c not in others for m in left for c in m.dht.known_contacts()), "all forgotten"
        net.heal()
        await asyncio.sleep(60)
        for number, member in enumerate(swarm.members):
            assert await member.dht.closest(key(number), 8) == swarm.closest(key(number), 8)

    net.run(main())


def test_a_node_that_lost_everybody_looks_for_the_bootstrap_nodes_again(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(2)
        lonely = swarm.members[1]
        lonely.protocol.router.flush()
        lonely.protocol.buried.clear()
        await asyncio.sleep(30)
        assert lonely.dht.known_contacts() == [swarm.members[0].contact]

    net.run(main())


def test_buckets_without_lookups_are_refreshed(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(refresh_interval=120.0))
        await swarm.grow(6)
        before = [m.metrics.as_dict()["dht_lookups"] for m in swarm.members]
        await asyncio.sleep(100)
        assert [m.metrics.as_dict()["dht_lookups"] for m in swarm.members] == before
        await asyncio.sleep(60)
        after = [m.metrics.as_dict()["dht_lookups"] for m in swarm.members]
        assert all(late > early for early, late in zip(before, after, strict=True))  # type: ignore[operator]

    net.run(main())


def test_answering_others_does_not_count_as_a_refresh(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(refresh_interval=1e6))
        await swarm.grow(4)
        await asyncio.sleep(50)
        asked, asker = swarm.members[0], swarm.members[1]
        ages = [bucket.last_updated for bucket in asked.protocol.router.buckets]
        await asker.dht.closest(key("x"))
        assert [bucket.last_updated for bucket in asked.protocol.router.buckets] == ages

    net.run(main())


def test_an_idle_node_sends_little(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(20)
        await asyncio.sleep(60)
        before = net.stats.sent_bytes
        await asyncio.sleep(600)
        assert (net.stats.sent_bytes - before) / 20 / 10 < 1500, "bytes a node and minute"

    net.run(main())


def test_closing_leaves_nothing_running(seed: int) -> None:
    net = Network(seed, latency=Latency.constant(0.02))

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(5)
        await swarm.members[0].dht.put(key("k"), b"v", 1, 60.0)
        lookups = [asyncio.ensure_future(m.dht.closest(key(1))) for m in swarm.members]
        await asyncio.sleep(0.01)
        for member in swarm.members:
            await member.close()
        await asyncio.gather(*lookups, return_exceptions=True)
        await asyncio.sleep(0)
        assert [task.get_name() for task in asyncio.all_tasks()] == ["main"]

    net.run(main())
