"""Channels over endpoints on the virtual network: promises, back-pressure, isolation, and a clean end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from overlay.channel import ChannelConfig, Channels, ChannelState, MessageTooLarge, PeerRestarted
from overlay.contact import Contact
from overlay.entropy import entropy
from overlay.errors import ClosedError
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import FrameKind
from overlay.virtual import Deadlock, Latency, Network, nth_host

KEY = bytes(range(32))
SMALL = ChannelConfig(
    max_message=20_000, send_buffer=200_000, receive_buffer=200_000, receive_memory=1_000_000
)


class Node:
    """Channels on a virtual host, and what they handed up."""

    def __init__(self, endpoint: Endpoint, config: ChannelConfig) -> None:
        self.endpoint = endpoint
        self.channels = Channels(endpoint, config)
        self.received: list[bytes] = []
        self.states: list[ChannelState] = []
        self.restarts: list[PeerRestarted] = []
        self.channels.on_message(lambda sender, message: self.received.append(message))
        self.channels.on_state(lambda peer, state: self.states.append(state))
        self.channels.on_restart(lambda peer, event: self.restarts.append(event))

    @property
    def contact(self) -> Contact:
        return self.endpoint.contact

    async def close(self) -> None:
        await self.channels.close()
        await self.endpoint.close()


async def open_node(
    net: Network,
    index: int,
    config: ChannelConfig = SMALL,
    keys: tuple[bytes, ...] = (),
    identity: Identity | None = None,
) -> Node:
    host = nth_host(index)

    async def start() -> Node:
        place = EndpointConfig(f"{host}:4000", keys=keys)
        return Node(await Endpoint.open(place, identity or Identity.create(), Metrics()), config)

    return await net.spawn(host, start())


def message(number: int) -> bytes:
    return b"%d " % number + entropy().randbytes(entropy().choice([0, 50, 1_000, 18_000]))


async def deliver_all(net: Network, keys: tuple[bytes, ...]) -> None:
    """Two nodes send to each other, through three partitions, and all arrives exactly once."""
    a, b = [await open_node(net, index, keys=keys) for index in (1, 2)]
    sent: dict[Node, list[bytes]] = {a: [], b: []}

    async def talk(source: Node, target: Node) -> None:
        channel = source.channels.to(target.contact)
        for number in range(60):
            sent[target].append(message(number))
            await channel.send(sent[target][-1])
            await asyncio.sleep(entropy().uniform(0, 0.8))

    talks = [net.spawn(nth_host(1), talk(a, b)), net.spawn(nth_host(2), talk(b, a))]
    for _ in range(3):
        await asyncio.sleep(entropy().uniform(0, 8))
        net.partition([nth_host(1)], [nth_host(2)], one_way=entropy().random() < 0.3)
        await asyncio.sleep(entropy().uniform(0, 12))
        net.heal()
    await asyncio.gather(*talks)
    await asyncio.gather(a.channels.drained(), b.channels.drained())
    for node in (a, b):
        assert Counter(node.received) == Counter(sent[node])
        assert node.restarts == []
        await node.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])
def test_between_live_nodes_everything_arrives_once(seed: int, keys: tuple[bytes, ...]) -> None:
    net = Network(seed, latency=Latency.uniform(0.005, 0.1), loss=0.1 * seed, duplicate=0.1)
    net.run(deliver_all(net, keys))
    assert net.unhandled == []


@pytest.mark.sweep
@pytest.mark.parametrize("block", range(4))
def test_between_live_nodes_everything_arrives_once_at_many_seeds(block: int) -> None:
    for seed in range(100 + 5 * block, 105 + 5 * block):
        net = Network(seed, latency=Latency.uniform(0.005, 0.2), loss=0.4, duplicate=0.2)
        net.run(deliver_all(net, ()))


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])
def test_a_restart_is_reported_and_nothing_is_handed_up_twice(keys: tuple[bytes, ...]) -> None:
    net = Network(11, latency=Latency.uniform(0.005, 0.05), loss=0.2, duplicate=0.1)
    received: list[bytes] = []

    async def main() -> None:
        identity = Identity.create()
        a = await open_node(net, 1, keys=keys)
        b = await open_node(net, 2, keys=keys, identity=identity)
        channel = a.channels.to(b.contact)
        outcomes: dict[int, bool] = {}
        for number in range(200):
            channel.try_send(
                b"%d" % number, lambda ok, number=number: outcomes.setdefault(number, ok)
            )
            await asyncio.sleep(0.05)
            if number in (60, 120):
                received.extend(b.received)
                net.restart(nth_host(2))
                b = await open_node(net, 2, keys=keys, identity=identity)
        await channel.drained()
        received.extend(b.received)
        assert len(a.restarts) == 2
        assert len(outcomes) == 200
        arrived = {number for number, ok in outcomes.items() if ok}
        assert arrived <= set(map(int, received))
        assert sum(event.lost for event in a.restarts) == 200 - len(arrived) < 60

    net.run(main())
    assert max(Counter(received).values()) == 1


def test_a_frame_of_another_kind_ends_the_wait_of_a_silent_channel() -> None:
    net = Network(4, latency=Latency.constant(0.02))

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]
        a.endpoint.on(FrameKind.DATAGRAM, lambda sender, body: None)
        channel = a.channels.to(b.contact)
        await channel.send(b"first")
        await channel.drained()
        net.partition([nth_host(1)], [nth_host(2)])
        channel.try_send(b"second")
        await asyncio.sleep(32)
        net.heal()
        await asyncio.sleep(1)
        assert b.received == [b"first"]
        b.endpoint.send(a.contact, FrameKind.DATAGRAM, b"?")
        await asyncio.sleep(0.3)
        assert b.received == [b"first", b"second"]

    net.run(main())


def test_send_waits_for_space_and_try_send_says_no() -> None:
    net = Network(1, latency=Latency.constant(0.05))

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]
        channel = a.channels.to(b.contact)
        accepted = 0
        while channel.try_send(bytes(1_000)):
            accepted += 1
        assert accepted == SMALL.send_buffer // 1_064
        assert channel.buffered <= SMALL.send_buffer
        sending = asyncio.create_task(channel.send(bytes(1_000)))
        await asyncio.sleep(0.01)
        assert not sending.done()
        await sending
        await channel.drained()
        assert len(b.received) == accepted + 1

    net.run(main())


def test_a_reader_that_stops_slows_its_senders_and_does_not_grow() -> None:
    net = Network(2)

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]
        b.channels.pause()
        channel = a.channels.to(b.contact)

        async def flood() -> None:
            for number in range(1_000):
                await channel.send(b"%4d" % number + bytes(996))

        flooding = net.spawn(nth_host(1), flood())
        await asyncio.sleep(120)
        assert not flooding.done()
        assert b.received == []
        assert channel.state is ChannelState.OPEN
        held = b.channels.held
        assert SMALL.receive_buffer * 0.9 < held <= SMALL.receive_buffer
        b.channels.resume()
        await flooding
        await channel.drained()
        assert len(set(b.received)) == len(b.received) == 1_000
        assert b.channels.held == 0

    net.run(main())


def test_a_slow_peer_and_a_dead_one_stall_no_other() -> None:
    net = Network(3)

    async def main() -> None:
        hub, slow, dead, fast = [await open_node(net, index) for index in (1, 2, 3, 4)]
        slow.channels.pause()
        net.crash(nth_host(3))
        for peer in (slow, dead):
            channel = hub.channels.to(peer.contact)
            while channel.try_send(bytes(1_000)):
                pass
        began = net.now
        channel = hub.channels.to(fast.contact)
        for _ in range(2_000):
            await channel.send(bytes(1_000))
        await channel.drained()
        assert len(fast.received) == 2_000
        assert net.now - began < 2.0

    net.run(main())


def test_messages_too_large_name_the_limit() -> None:
    net = Network(4)

    async def main() -> None:
        a, b = [await open_node(net, index, ChannelConfig()) for index in (1, 2)]
        channel = a.channels.to(b.contact)
        largest = entropy().randbytes(1024 * 1024)
        await channel.send(largest)
        await channel.drained()
        assert b.received == [largest]
        with pytest.raises(MessageTooLarge, match="1048576"):
            await channel.send(largest + b"!")

    net.run(main())


def test_a_handler_that_raises_is_counted_and_stops_nothing() -> None:
    net = Network(5)

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]

        def fail(sender: Contact, message: bytes) -> None:
            b.received.append(message)
            raise RuntimeError(message)

        b.channels.on_message(fail)
        for number in range(5):
            await a.channels.to(b.contact).send(b"%d" % number)
        await a.channels.drained()
        assert len(b.received) == 5
        assert b.endpoint.metrics.as_dict()["channel_handler_errors"] == {"message": 5}

    net.run(main())


def test_a_handle_outlives_idleness_and_is_the_same_for_everyone() -> None:
    net = Network(6)

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]
        channel = a.channels.to(b.contact)
        await channel.send(b"one")
        await asyncio.sleep(3 * SMALL.idle_after)
        assert channel.state is ChannelState.IDLE
        assert a.endpoint.metrics.as_dict()["channels"] == 0
        assert a.channels.to(b.contact) is channel
        await channel.send(b"two")
        await channel.drained()
        assert b.received == [b"one", b"two"]
        assert a.states == [ChannelState.OPEN, ChannelState.IDLE, ChannelState.OPEN]

    net.run(main())


def test_close_tells_the_peer_and_ends_those_who_wait() -> None:
    net = Network(7)

    async def main() -> None:
        a, b = [await open_node(net, index) for index in (1, 2)]
        b.channels.pause()
        channel = a.channels.to(b.contact)
        outcomes: list[bool] = []
        for _ in range(2 * SMALL.send_buffer // 1_000):
            channel.try_send(bytes(1_000), outcomes.append)
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(channel.send(bytes(1_000)))
        await asyncio.sleep(1)
        await a.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            channel.try_send(b"too late")
        assert outcomes.count(False) > 0
        await asyncio.sleep(0.1)
        assert len(b.restarts) == 1

    net.run(main())


@pytest.mark.parametrize("when", [0.0, 0.5, 4.0, 100.0])
def test_nothing_is_left_running_after_close(when: float) -> None:
    """Waiting for ever is a deadlock only if no timer, task or packet of the nodes is left."""
    net = Network(8, latency=Latency.constant(0.01), loss=0.3)

    async def main() -> None:
        nodes = [await open_node(net, index) for index in (1, 2, 3)]
        for source in nodes:
            for target in nodes:
                if source is not target:
                    source.channels.to(target.contact).try_send(bytes(20_000))
        await asyncio.sleep(when)
        net.partition([nth_host(3)], [nth_host(1), nth_host(2)])
        await asyncio.sleep(when)
        for node in nodes:
            await node.close()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        net.run(main())


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> str:
        net = Network(9, latency=Latency.uniform(0.005, 0.05), loss=0.2)
        net.run(deliver_all(net, ()))
        return net.trace_hash

    assert run() == run()


def test_a_tiny_node_is_not_filled_by_many_peers() -> None:
    net = Network(10)
    tiny = replace(SMALL, max_channels=3)

    async def main() -> None:
        hub = await open_node(net, 1, tiny)
        others = [await open_node(net, index) for index in range(2, 8)]
        for other in others:
            other.channels.to(hub.contact).try_send(b"hello")
        await asyncio.sleep(3)
        assert len(hub.received) == 3
        assert hub.endpoint.metrics.as_dict()["channels"] == 3
        await asyncio.sleep(5 * SMALL.idle_after)
        assert len(hub.received) == 6, "the others got their turn when the first were idle"

    net.run(main())


def test_those_who_ask_are_told_when_a_full_channel_is_writable_again() -> None:
    net = Network(seed=6)

    async def main() -> None:
        one, other = await open_node(net, 0), await open_node(net, 1)
        told: list[tuple[Contact, bool]] = []
        channels = one.channels
        peer = other.contact
        channels.on_writable(
            lambda contact: told.append((contact, channels.is_writable(contact.id)))
        )
        channel = channels.to(peer)
        assert channels.is_writable(peer.id)
        channel.try_send(b"small")
        await channel.drained()
        assert told == []
        other.channels.pause()
        accepted = 0
        while channel.try_send(bytes(10_000)):
            accepted += 1
        assert not channels.is_writable(peer.id)
        await asyncio.sleep(1)
        assert told == [(peer, True)], "the paused peer's receive buffer takes most of it"
        while channel.try_send(bytes(10_000)):
            accepted += 1
        await asyncio.sleep(1)
        assert not channels.is_writable(peer.id)
        assert len(told) == 1
        other.channels.resume()
        await channel.drained()
        assert told == [(peer, True)] * 2
        assert len(other.received) == accepted + 1
        await one.close()
        await other.close()

    net.run(main())
