"""What happens to MQTT clients as time passes: keep alive, expiries and delays, on the virtual clock."""

from __future__ import annotations

import asyncio
from typing import Any

from pubsub.doors.mqtt.deadlines import STEP_SECONDS
from pubsub.doors.mqtt.packets import PINGREQ, Ping, Reason
from tests.promises.storm import eventually
from tests.pubsub.doors.mqtt_scene import Client, Scene, play

LASTING = 300


def test_messages_expire_and_say_how_long_they_have() -> None:
    async def main(scene: Scene) -> None:
        first, second, _ = scene.doors
        reader, writer = Client("reader", LASTING), Client("writer")
        await reader.connect(first)
        await reader.subscribe("orders/x")
        await reader.say_goodbye()
        await writer.connect(second)
        await writer.publish("short", 1, 1)
        await writer.publish("long", 1, 100)
        await writer.publish("short 2", 2, 1)
        await writer.publish("ever", 2)
        await asyncio.sleep(2.2)
        await reader.connect(second)
        assert reader.is_present
        await asyncio.sleep(5)
        long, ever = reader.messages
        assert (long.payload, ever.payload) == (b"long", b"ever")
        assert 90 <= long.properties["message_expiry_interval"] <= 98

    play(1, main)


def test_a_session_expires() -> None:
    async def main(scene: Scene) -> None:
        first, second, _ = scene.doors
        one = Client("one", 1)
        await one.connect(first)
        await one.subscribe("orders/x")
        await one.say_goodbye()
        await asyncio.sleep(2.5)
        one.expiry = 0
        for door in (second, first):
            await one.connect(door)
            assert not one.is_present
            await one.say_goodbye()
        one.expiry = LASTING
        await one.connect(first, clean_start=True)
        await one.subscribe("orders/x")
        await one.say_goodbye(session_expiry_interval=0)  # ends now
        assert await eventually(scene.storm.net, 10, lambda: not scene.names("/mqtt-sessions"))
        await one.connect(second)
        assert not one.is_present

    play(2, main)


def test_keep_alive() -> None:
    async def main(scene: Scene) -> None:
        one, now = Client("one"), lambda: scene.storm.net.now
        await one.connect(scene.doors[0], keep_alive=1)
        for _ in range(3):
            await asyncio.sleep(0.7)
            await one.ask(Ping(PINGREQ), Ping)
        heard = now()
        assert await one.ended() == Reason.KEEP_ALIVE_TIMEOUT
        assert 1.4 < now() - heard < 1.6 + STEP_SECONDS

    play(3, main)


def test_a_delayed_will_waits_for_the_client_or_the_end_of_its_session() -> None:
    async def main(scene: Scene) -> None:
        first, second, last = scene.doors
        watcher = Client("watcher")
        await watcher.connect(last)
        await watcher.subscribe("orders/wills")

        async def leaves(client: Client, *back: Any) -> None:
            await client.connect(first)
            client.vanish()
            for door in back:
                client.will = None
                await client.connect(door)
                assert client.is_present
            await asyncio.sleep(5)

        await leaves(Client("comes back", LASTING, delay=2), first)
        await leaves(Client("goes on elsewhere", LASTING, delay=2), second)
        assert not watcher.got
        await leaves(Client("ends", 1, delay=60))
        assert watcher.got == {"ends": 1}, "a minute before the delay"
        await leaves(Client("stays away", LASTING, delay=2))
        assert watcher.got == {"ends": 1, "stays away": 1}
        four = Client("still here", LASTING, delay=2)
        await four.connect(first)
        moved = Client("still here", LASTING)
        await moved.connect(second)  # while it is connected to the first
        assert moved.is_present
        assert await four.ended() == Reason.SESSION_TAKEN_OVER
        await asyncio.sleep(5)
        assert watcher.got == {"ends": 1, "stays away": 1}

    play(4, main)
