"""The detector over channels: no false suspicion under loss, crashes seen soon, idle pairs nearly free."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.failure import FailureConfig
from overlay.failure.detector import Ask, Detector
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.failure.busy_nodes import Watcher, open_node, watching_nodes

MINUTE = 60.0


def lossy(seed: int) -> Network:
    return Network(seed, latency=Latency.constant(0.05), loss=0.2)


def suspicions(net: Network, seconds: float, chatter: float | None, count: int = 10) -> int:
    async def main() -> list[Watcher]:
        nodes = await watching_nodes(net, count, chatter)
        await asyncio.sleep(seconds)
        return nodes

    return sum(len(node.suspected) for node in net.run(main()))


def test_ten_busy_nodes_are_not_suspected_in_a_minute_of_loss() -> None:
    assert suspicions(lossy(1), MINUTE, chatter=0.2) == 0


@pytest.mark.sweep
def test_ten_busy_nodes_are_not_suspected_in_ten_minutes_of_loss() -> None:
    assert suspicions(lossy(2), 10 * MINUTE, chatter=0.1) == 0


@pytest.mark.sweep
def test_ten_idle_nodes_are_not_suspected_in_ten_minutes_of_loss() -> None:
    assert suspicions(lossy(3), 10 * MINUTE, chatter=None) == 0


def test_a_detector_that_does_not_ask_again_suspects_falsely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    insist = Detector._insist

    def insist_in_silence(self: Any, watch: Any, asked_at: float, now: float, actions: Any) -> None:
        insist(self, watch, asked_at, now, actions)
        actions[:] = [action for action in actions if action != Ask(watch.contact)]

    monkeypatch.setattr(Detector, "_insist", insist_in_silence)
    assert suspicions(lossy(1), MINUTE, chatter=None, count=5) > 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chatter", [None, 0.1], ids=["idle", "busy"])
def test_a_crash_is_seen_within_five_seconds_despite_loss(seed: int, chatter: float | None) -> None:
    net = lossy(seed)

    async def main() -> None:
        nodes = await watching_nodes(net, 5, chatter)
        await asyncio.sleep(10 + seed / 7)
        crash_at = net.now
        net.crash(nth_host(1))
        await asyncio.sleep(5.0)
        for node in nodes[1:]:
            assert [peer for _, peer in node.suspected] == [nodes[0].runtime.contact]
            assert node.suspected[0][0] >= crash_at

    net.run(main())


def test_a_partition_is_suspected_and_its_healing_restores() -> None:
    net = lossy(4)

    async def main() -> None:
        a, b = await watching_nodes(net, 2)
        await asyncio.sleep(5)
        net.partition([nth_host(1)], [nth_host(2)])
        await asyncio.sleep(10)
        assert len(a.suspected) == len(b.suspected) == 1
        net.heal()
        await asyncio.sleep(10)
        assert len(a.restored) == len(b.restored) == 1
        assert len(a.crashed) == len(b.crashed) == 1, "told strictly once, and never taken back"
        net.partition([nth_host(1)], [nth_host(2)])
        await asyncio.sleep(10)
        assert len(a.suspected) == 2
        assert len(a.crashed) == 1

    net.run(main())


def test_a_restart_too_quick_to_be_suspected_is_a_crash_to_strict_subscribers() -> None:
    net = Network(5)

    async def main() -> None:
        a, b = await watching_nodes(net, 2, chatter=0.1)
        await asyncio.sleep(5)
        identity = b.runtime.endpoint.identity
        net.restart(nth_host(2))
        reborn = await open_node(net, 2, identity=identity)
        assert reborn.runtime.contact == b.runtime.contact
        await asyncio.sleep(5)
        assert a.suspected == []
        assert a.crashed == [b.runtime.contact]

    net.run(main())


def test_an_idle_pair_exchanges_little_more_than_a_datagram_a_second() -> None:
    net = Network(6)

    async def main() -> float:
        await watching_nodes(net, 2)
        await asyncio.sleep(10)
        before = net.stats.sent
        await asyncio.sleep(10 * MINUTE)
        return (net.stats.sent - before) / (10 * MINUTE)

    assert net.run(main()) <= 2 / FailureConfig().interval


def test_peers_that_nobody_watches_cost_nothing() -> None:
    net = Network(7)

    async def main() -> int:
        nodes = [await open_node(net, index) for index in (1, 2)]
        assert nodes[0].runtime.channels.to(nodes[1].runtime.contact).try_send(b"once")
        await asyncio.sleep(5 * MINUTE)
        before = net.stats.sent
        await asyncio.sleep(60 * MINUTE)
        assert all(node.runtime.metrics.as_dict()["channels"] == 0 for node in nodes)
        return net.stats.sent - before

    assert net.run(main()) == 0


def test_nothing_is_called_after_close_and_no_timer_is_left() -> None:
    net = Network(8)

    async def main() -> None:
        a, b = await watching_nodes(net, 2)
        await asyncio.sleep(5)
        for node in (a, b):
            await node.runtime.close()
        sent = net.stats.sent
        await asyncio.sleep(MINUTE)
        assert a.suspected == b.suspected == []
        assert net.stats.sent == sent

    net.run(main())
