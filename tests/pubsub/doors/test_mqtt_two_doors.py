"""Clients of two doors, one of which is killed: what an archive keeps for a client is there at the other, and
without an archive the other door's members of a group get what was the killed door's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from overlay import loops
from pubsub import Archive, Node
from pubsub.doors.mqtt import MqttDoor
from tests.pubsub.doors.mqtt_processes import Doors


def client(port: int, name: str, **options: Any) -> aiomqtt.Client:
    return aiomqtt.Client("127.0.0.1", port, identifier=name, **options)


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with ExitStack() as stack:
        yield Doors(tmp_path, stack)


@pytest.mark.sweep
@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_is_lost_or_doubled_when_the_door_of_a_subscriber_is_killed(
    doors: Doors, qos: int
) -> None:
    """The client subscribes once: its session is known at the other door. With QoS 2 nothing comes twice."""
    first, second = doors.ports

    async def main() -> None:
        # One client for both doors: it keeps its own part of the session, as QoS 2 needs.
        desk = paho.Client(CallbackAPIVersion.VERSION2, "desk", clean_session=False)
        got: list[int] = []
        present: list[bool] = []
        news = asyncio.Event()
        call_soon = asyncio.get_running_loop().call_soon_threadsafe

        def on_message(_client: Any, _data: Any, message: paho.MQTTMessage) -> None:
            got.append(int(message.payload))
            if len(got) == 20:
                doors.kill(0)
            call_soon(news.set)

        def on_connect(_client: Any, _data: Any, flags: Any, *_: Any) -> None:
            present.append(flags.session_present)
            call_soon(news.set)

        async def until(is_true: Callable[[], bool]) -> None:
            while not is_true():
                await news.wait()
                news.clear()

        ready = asyncio.Event()
        desk.on_message, desk.on_connect = on_message, on_connect
        desk.on_subscribe = lambda *_: call_soon(ready.set)  # type: ignore[assignment]
        desk.connect("127.0.0.1", first)
        desk.loop_start()
        try:
            await until(lambda: bool(present))
            desk.subscribe("orders/+", qos)
            await ready.wait()
            async with client(second, "shop") as shop:
                for number in range(40):
                    await shop.publish("orders/new", b"%d" % number, qos=qos)
                await until(lambda: len(got) >= 20)
                for number in range(40, 60):  # the desk is away
                    await shop.publish("orders/new", b"%d" % number, qos=qos)
                desk.loop_stop()
                desk.connect("127.0.0.1", second)
                desk.loop_start()
                await until(lambda: set(got) == set(range(60)))
                await shop.publish("orders/new", b"60", qos=qos)
                await until(lambda: 60 in got)
        finally:
            desk.loop_stop()
        assert present == [False, True]
        assert qos == 1 or len(got) == 61, "nothing twice"

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.sweep
def test_nothing_of_a_publisher_is_lost_when_its_door_is_killed(doors: Doors) -> None:
    first, second = doors.ports

    async def main() -> None:
        acknowledged: list[int] = []

        async def publish() -> None:
            async with client(first, "shop", timeout=2) as shop:
                for number in range(1000):
                    await shop.publish("orders/new", b"%d" % number, qos=1)
                    acknowledged.append(number)
                    if number == 30:
                        doors.kill(0)

        async with client(second, "desk", clean_session=False) as desk:
            await desk.subscribe("orders/+", qos=1)
            with pytest.raises(aiomqtt.MqttError):
                await publish()
            missing = set(acknowledged)
            async for message in desk.messages:
                missing.discard(int(message.payload))
                if not missing:
                    break

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.sweep
def test_what_was_a_killed_doors_turn_goes_to_the_groups_members_at_another_door() -> None:
    """Without an archive: what is published after the kill comes, though it takes the other door a while to
    find out."""

    async def main(doors: Doors) -> None:
        first, second = doors.ports
        got: dict[int, set[int]] = {}
        news = asyncio.Event()
        ready = asyncio.Semaphore(0)

        async def work(port: int) -> None:
            got[port] = set()
            with suppress(aiomqtt.MqttError):  # its door is killed
                async with client(port, f"worker {port}") as worker:
                    await worker.subscribe("$share/workers/jobs/+", qos=2)
                    ready.release()
                    async for message in worker.messages:
                        got[port].add(int(message.payload))
                        news.set()

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work(port)) for port in (first, second)]
            async with client(second, "office") as office:
                await ready.acquire()
                await ready.acquire()
                number = 0
                while max(got[second], default=0) < min(got[first] - got[second], default=number):
                    await office.publish("jobs/new", b"%d" % number, qos=1)
                    number += 1  # until the second door leaves a message to the first one
                doors.kill(0)
                late = set(range(number, number + 20))
                for one in late:
                    await office.publish("jobs/new", b"%d" % one, qos=1 + one % 2)
                while not got[second] >= late:
                    await news.wait()
                    news.clear()
            workers[1].cancel()

    with ExitStack() as stack:
        loops.run(asyncio.wait_for(main(Doors(None, stack)), 60))


def test_a_client_that_moves_is_let_go_by_its_old_door_and_one_that_ends_is_forgotten(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            archive = await enter(Archive(["/orders"], f"sqlite:///{tmp_path}/events.db"))
            other = await enter(Node(bootstrap=[str(archive.node.address)]))
            ports = []
            for node in (archive.node, other):
                door = await enter(MqttDoor(node, "127.0.0.1:0", durable=["/orders"]))
                assert door.address is not None
                ports.append(door.address.port)
            ready = asyncio.Event()

            async def stay() -> None:
                async with client(ports[1], "desk", clean_session=False) as desk:
                    await desk.subscribe("orders/+", qos=1)
                    ready.set()
                    async for _ in desk.messages:
                        pass

            staying = asyncio.create_task(stay())
            await ready.wait()
            async with client(ports[0], "desk", clean_session=False) as desk:
                await desk.subscribe("orders/+", qos=1)
                await desk.publish("orders/x", b"1", qos=1)
                assert (await anext(desk.messages)).payload == b"1"
                with pytest.raises(aiomqtt.MqttError):  # its old door says that it is elsewhere
                    await staying
                assert len(archive.status()["/orders"]["subscribers"]) == 1
                await desk.unsubscribe("orders/+")
                # The same filter begins anew: what was published before it is not for it.
                await desk.publish("orders/x", b"2", qos=1)
                await desk.subscribe("orders/+", qos=1)
                await desk.publish("orders/x", b"3", qos=1)
                assert (await anext(desk.messages)).payload == b"3"
                await desk.unsubscribe("orders/+")
                await desk.subscribe("orders/+", qos=0)  # nothing is kept for this one
                assert not archive.status()["/orders"]["subscribers"]

    loops.run(asyncio.wait_for(main(), 60))
