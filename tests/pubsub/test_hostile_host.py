"""One hostile host with many invented ids does not keep newcomers from a node."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from overlay.channel import ChannelConfig
from overlay.channel.packet import ACCEPTANCE, OPEN, PROGRESS, PacketType
from overlay.contact import PeerId
from overlay.transport.frame import FrameKind, PlainEnvelope, frame_head, split_frames
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.config import LARGEST_MESSAGE

VICTIM = (nth_host(1), 4000)
SMALL = ChannelConfig(max_message=LARGEST_MESSAGE, max_half_open=16, max_channels=48)


def datagram(sender: PeerId, packet: bytes) -> bytes:
    return PlainEnvelope(sender).wrap([frame_head(FrameKind.CHANNEL, len(packet)), packet])


class Sybils(asyncio.DatagramProtocol):
    """Opens channels under ever new ids, and keeps those alive that are accepted."""

    def __init__(self) -> None:
        self.random = random.Random(1)
        self.ids: dict[int, PeerId] = {}
        self.open: dict[int, bytes] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, source: Any) -> None:
        opened = PlainEnvelope(PeerId(b"s" * 20)).unwrap(data, source)
        assert opened is not None
        for _, body in split_frames(opened[1], opened[2]):
            if body[0] == PacketType.ACCEPT:
                _, theirs, mine, _ = ACCEPTANCE.unpack(body)
                packet = PROGRESS.pack(PacketType.PING, mine, theirs, 0, 1 << 20) + b"\0"
                self.open[mine] = datagram(self.ids[mine], packet)
                self.transport.sendto(self.open[mine], VICTIM)

    async def attack(self, rate: float) -> None:
        while True:
            session = self.random.getrandbits(31) | 1
            self.ids[session] = PeerId(self.random.randbytes(20))
            opening = OPEN.pack(PacketType.OPEN, session, 0, 0)
            self.transport.sendto(datagram(self.ids[session], opening), VICTIM)
            for ping in list(self.open.values())[-SMALL.max_channels :]:
                if self.random.random() < 0.05:
                    self.transport.sendto(ping, VICTIM)
            await asyncio.sleep(1 / rate)


def test_a_newcomer_reaches_a_node_whose_channels_one_host_tries_to_take() -> None:
    net = Network(seed=1, latency=Latency.uniform(0.001, 0.01))
    got: list[Any] = []

    async def first() -> None:
        async with Node(listen=f"{nth_host(0)}:4000"):
            await asyncio.sleep(1e9)

    async def victim() -> None:
        async with (
            Node(
                listen=f"{nth_host(1)}:4000", bootstrap=[f"{nth_host(0)}:4000"], channel=SMALL
            ) as node,
            node.subscribe("/t") as events,
        ):
            async for event in events:
                got.append(event.data)

    async def hostile() -> None:
        _, sybils = await asyncio.get_running_loop().create_datagram_endpoint(
            Sybils, local_addr=(nth_host(6), 666)
        )
        await sybils.attack(50)

    async def newcomer() -> None:
        async with Node(listen=f"{nth_host(2)}:4000", bootstrap=[f"{nth_host(0)}:4000"]) as node:
            for number in range(5):
                receipt = await node.publish("/t", number, wait="acked")
                assert receipt.acknowledged

    async def main() -> None:
        net.spawn(nth_host(0), first())
        await asyncio.sleep(1)
        net.spawn(nth_host(1), victim())
        await asyncio.sleep(10)
        net.spawn(nth_host(6), hostile())
        await asyncio.sleep(10)
        async with asyncio.timeout(30):
            await net.spawn(nth_host(2), newcomer())
        await asyncio.sleep(1)
        assert got == list(range(5))

    net.run(main(), limit=200)
