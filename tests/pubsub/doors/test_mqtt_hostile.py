"""Hostile MQTT clients: malformed packets, connections that say nothing, with honest clients beside them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import aiomqtt
import pytest

from overlay import loops
from pubsub import Node
from pubsub.doors import serving
from pubsub.doors.mqtt import MqttConfig, MqttDoor
from pubsub.doors.mqtt.packets import V311, Asked, Connect, Subscribe, write_packet
from tests.pubsub.doors.certificates import make_certificate
from tests.pubsub.doors.deaf import LARGE, UPGRADE, Deaf
from tests.pubsub.doors.mqtt_storm import changed, corpus, storm


def test_malformed_packets_end_their_connection_and_nothing_else() -> None:
    outcome = storm(3_000, seed=1)
    assert outcome.honest > 5
    assert len(outcome.reasons) >= 5


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [2, 3])
def test_many_malformed_packets(seed: int) -> None:
    outcome = storm(50_000, seed)
    assert outcome.malformed >= 50_000


def test_pages_of_other_origins_do_not_connect_over_websocket() -> None:
    async def main() -> None:
        allowed = "https://example.org"
        async with (
            Node() as node,
            MqttDoor(node, websocket="127.0.0.1:0", origins=[allowed]) as door,
            aiohttp.ClientSession(f"http://{door.websocket_address}") as session,
        ):
            for origin in (allowed, f"http://{door.websocket_address}", None):
                headers = {} if origin is None else {"Origin": origin}
                async with session.ws_connect("/", protocols=["mqtt"], headers=headers) as socket:
                    assert socket.protocol == "mqtt"
            for origin in ("https://elsewhere.org", "null", "http://["):
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await session.ws_connect("/", protocols=["mqtt"], headers={"Origin": origin})

    loops.run(asyncio.wait_for(main(), 60))


def test_websockets_that_take_nothing_are_put_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SILENT_SECONDS", 0.2)

    def framed(packet: Connect | Subscribe) -> bytes:
        data = write_packet(packet, V311)
        return bytes((0x82, 0x80 | len(data), 0, 0, 0, 0)) + data

    async def main() -> None:
        async with Node() as node, MqttDoor(node, websocket="127.0.0.1:0") as door:
            assert door.websocket_address is not None
            client = Deaf(door.websocket_address)
            connect, subscribe = Connect("c", version=V311), Subscribe(1, (Asked("a"),))
            await client.ask(UPGRADE)
            await client.talk(framed(connect) + framed(subscribe), b"\x90\x03\0\1\0")  # SUBACK
            for _ in range(40):
                await node.publish("/a", LARGE)
            await client.is_put_out()

    loops.run(asyncio.wait_for(main(), 60))


def test_who_begins_no_session_of_tls_is_let_go_as_soon_as_who_sends_no_connect(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        tls, config = make_certificate(tmp_path), MqttConfig(connect_seconds=0.2)
        async with Node() as node, MqttDoor(node, "127.0.0.1:0", tls=tls, config=config) as door:
            assert door.address is not None
            reader, writer = await asyncio.open_connection(*door.address)
            assert await reader.read() == b""
            writer.close()

    loops.run(asyncio.wait_for(main(), 20))


def test_honest_clients_are_served_while_hostile_ones_dawdle_and_shout() -> None:
    """Over real sockets: 100 connections that say nothing, 100 that stop within a packet, 300 that break
    rules; the door lets all of them go, and the honest clients miss nothing."""

    async def main() -> None:
        config = MqttConfig(connect_seconds=1.0, packet_seconds=1.0)
        async with Node() as node, MqttDoor(node, "127.0.0.1:0", config=config) as door:
            assert door.address is not None
            host, port = door.address.host, door.address.port
            rng, good = random.Random(1), corpus()

            async def hostile(data: bytes, *more: bytes) -> None:
                """Send, and wait until the door ends the connection."""
                reader, writer = await asyncio.open_connection(host, port)
                for part in (data, *more):
                    writer.write(part)
                try:
                    while await reader.read(4096):
                        pass
                except ConnectionError:
                    pass
                writer.close()

            async with (
                aiomqtt.Client(host, port, identifier="reader") as honest,
                aiomqtt.Client(host, port, identifier="writer") as other,
            ):
                await honest.subscribe("a/b", qos=1)
                attacks = [hostile(b"") for _ in range(100)]
                attacks += [hostile(good[0], good[1][:5]) for _ in range(100)]
                attacks += [
                    hostile(changed(rng, rng.choice(good)), rng.randbytes(64)) for _ in range(300)
                ]
                storming = asyncio.gather(*attacks)
                for number in range(100):
                    await other.publish("a/b", b"%d" % number, qos=1)
                got = [await anext(honest.messages) for _ in range(100)]
                assert [int(one.payload) for one in got] == list(range(100))
                await storming
            dropped = node.metrics.family("mqtt_messages_dropped", "reason", "")
            assert dropped["client_without_connect"] >= 100
            assert dropped.total >= 300, "but those that another one of their name took over from"

    loops.run(asyncio.wait_for(main(), 60))
