"""What MQTT clients cost a door: an idle one in bytes of Python's objects, the first one in modules."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import tracemalloc

from overlay import loops
from pubsub import Node
from pubsub.doors.mqtt import MqttDoor
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    V311,
    Asked,
    Connect,
    Ping,
    Publish,
    Subscribe,
    plain_ack,
)
from pubsub.doors.mqtt.packets import write_packet as packed

CLIENTS = 300
MOST = 1_120
"""Bytes for each; with what the allocator adds, within twice what mosquitto takes for one."""


def test_an_idle_client_costs_little_also_after_it_was_busy() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def read(peer: socket.socket, size: int) -> bytes:
            got = b""
            while len(got) < size:
                got += await loop.sock_recv(peer, size - len(got))
            return got

        async with Node() as node, MqttDoor(node, "127.0.0.1:0") as door:

            def knock(name: str) -> socket.socket:
                """A client that the door hears of when the loop runs."""
                assert door.address is not None
                peer = socket.create_connection(door.address)
                peer.sendall(packed(Connect(name, keep_alive=60, version=V311), V311))
                peer.sendall(packed(Subscribe(1, (Asked("a/b", 1),)), V311))
                peer.setblocking(False)
                return peer

            first = knock("first")
            await read(first, 9)
            peers = [knock(f"client{number}") for number in range(CLIENTS)]
            gc.collect()
            tracemalloc.start()
            for peer in peers:
                await read(peer, 9)
            gc.collect()
            idle = tracemalloc.get_traced_memory()[0] / CLIENTS
            assert idle < MOST
            await node.publish("/a/b", b"hello")
            message = packed(Publish("a/b", b"hello", 1, packet_id=1), V311)
            for peer in peers:
                assert await read(peer, len(message)) == message
                peer.send(plain_ack(PUBACK, 1)[:3])  # the rest comes in a moment
            await asyncio.sleep(0.01)
            gc.collect()
            busy = tracemalloc.get_traced_memory()[0] / CLIENTS
            for peer in peers:
                peer.send(plain_ack(PUBACK, 1)[3:] + packed(Ping(PINGREQ), V311))
            for peer in peers:
                assert await read(peer, 2) == packed(Ping(PINGRESP), V311)
            gc.collect()
            idle_again = tracemalloc.get_traced_memory()[0] / CLIENTS
            assert idle_again < idle + 220 < busy, "who is subscribed to the topic is remembered"
            tracemalloc.stop()
            for peer in (first, *peers):
                peer.close()

    loops.run(asyncio.wait_for(main(), 60))


OPENED = """
import asyncio, sys
from contextlib import AsyncExitStack
from pubsub import Node
from pubsub.doors.mqtt import MqttConfig
from pubsub.doors.mqtt.bridge import open_hub

async def main():
    async with Node() as node, AsyncExitStack() as stack:
        hub = await open_hub(stack, node, None, MqttConfig())
        before = set(sys.modules)
        ready = asyncio.get_running_loop().create_future()
        hub.network.watch("/soccer", ready.set_result)
        await ready
        print(*(name for name in set(sys.modules) - before if name.startswith("pubsub.")))

asyncio.run(main())
"""


def test_the_first_client_that_subscribes_holds_up_no_other_while_modules_are_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENED], capture_output=True, text=True, check=True, timeout=120
    )
    assert not done.stdout.split()
