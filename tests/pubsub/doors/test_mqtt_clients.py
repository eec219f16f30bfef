"""The MQTT door with clients that others wrote, over real sockets, and with Python on other nodes."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from overlay import loops
from overlay.errors import NetworkError
from pubsub import Archive, Node
from pubsub.cli import main
from pubsub.doors.mqtt import MqttDoor, message_in, server
from tests.pubsub.command_process import camcast, line
from tests.pubsub.doors.certificates import make_certificate


@asynccontextmanager
async def two_doors(**options: Any) -> AsyncIterator[tuple[MqttDoor, MqttDoor, Node]]:
    """Two doors on two nodes of one network, and a third node."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        first = await enter(Node())
        second = await enter(Node(bootstrap=[str(first.address)]))
        third = await enter(Node(bootstrap=[str(first.address)]))
        here = await enter(MqttDoor(first, "127.0.0.1:0", websocket="127.0.0.1:0", **options))
        there = await enter(MqttDoor(second, "127.0.0.1:0", **options))
        yield here, there, third


def client(door: MqttDoor, identifier: str, **options: Any) -> aiomqtt.Client:
    address = door.websocket_address if options.get("transport") == "websockets" else door.address
    assert address is not None
    return aiomqtt.Client(address.host, address.port, identifier=identifier, **options)


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_clients_of_two_doors_and_a_python_program_hear_one_another(
    transport: str, version: aiomqtt.ProtocolVersion
) -> None:
    async def main() -> None:
        async with two_doors() as (here, there, node):
            options: dict[str, Any] = {"protocol": version}
            async with (
                client(here, "reader", transport=transport, **options) as reader,
                client(there, "writer", **options) as writer,
                node.subscribe("/soccer") as events,
            ):
                await reader.subscribe("soccer/#", qos=2)
                for qos in (0, 1, 2):
                    await writer.publish("soccer/italy", b"%d" % qos, qos=qos)
                await node.publish("/soccer/france", {"score": [2, 0]})
                got = set()
                async for message in reader.messages:
                    got.add((str(message.topic), message.payload))
                    if len(got) == 4:
                        break
                assert got == {
                    ("soccer/italy", b"0"),
                    ("soccer/italy", b"1"),
                    ("soccer/italy", b"2"),
                    ("soccer/france", b'{"score": [2, 0]}'),
                }
                payloads = set()
                async for event in events:
                    found = message_in(event.topic, event.data)
                    assert found is not None
                    payloads.add(found.payload)
                    if len(payloads) == 4:
                        break

    loops.run(asyncio.wait_for(main(), 60))


def test_who_subscribes_to_everything_does_not_get_what_nodes_say_among_themselves() -> None:
    async def main() -> None:
        async with two_doors() as (here, _, node), client(here, "reader") as reader:
            await reader.subscribe("#")
            await node.publish("/camcast/x", "secret", wait="acked")
            await node.publish("/soccer", "open")
            assert (await anext(aiter(reader.messages))).payload == b"open"

    loops.run(asyncio.wait_for(main(), 60))


def test_a_message_goes_to_one_of_a_group_over_two_doors() -> None:
    async def main() -> None:
        async with two_doors() as (here, there, node), AsyncExitStack() as stack:
            got: list[list[int]] = [[], []]
            news = asyncio.Event()

            async def read(one: aiomqtt.Client, into: list[int]) -> None:
                async for message in one.messages:
                    into.append(int(message.payload))
                    news.set()

            async def publish(number: int) -> None:
                await node.publish("/jobs/x", str(number))
                await news.wait()
                news.clear()

            def has_left_one_to_the_other(door: int) -> bool:
                return any(n < max(got[door], default=0) for n in {*got[1 - door]} - {*got[door]})

            for place, door in enumerate((here, there)):
                one = await stack.enter_async_context(client(door, f"member{place}"))
                await one.subscribe("$share/g/jobs/+", qos=1)
                reading = asyncio.create_task(read(one, got[place]))
                stack.callback(reading.cancel)
            begin = 0
            while not (has_left_one_to_the_other(0) and has_left_one_to_the_other(1)):
                begin += 1
                await publish(begin)
            for number in range(begin + 1, begin + 101):
                await publish(number)
            late = [[n for n in one_got if n > begin] for one_got in got]
            assert sorted(late[0] + late[1]) == list(range(begin + 1, begin + 101))
            assert min(len(late[0]), len(late[1])) > 15

    loops.run(asyncio.wait_for(main(), 60))


def test_retained_messages_are_known_at_a_door_that_listens_for_them() -> None:
    async def main() -> None:
        async with two_doors(retain=["/sensors"]) as (here, there, _):
            async with client(there, "sensor") as sensor:
                await sensor.publish("sensors/1", b"21.5", qos=1, retain=True)
            async with client(here, "panel") as panel:
                while True:
                    await panel.subscribe("sensors/+")
                    try:
                        message = await asyncio.wait_for(anext(panel.messages), 1.0)
                        break
                    except TimeoutError:
                        await panel.unsubscribe("sensors/+")
                assert (message.payload, message.retain) == (b"21.5", True)

    loops.run(asyncio.wait_for(main(), 60))


def test_retained_messages_are_known_at_a_door_that_was_opened_later() -> None:
    async def main() -> None:
        async with (
            two_doors() as (here, there, third),
            MqttDoor(third, "127.0.0.1:0") as later,
            client(there, "sensor") as sensor,
        ):
            await sensor.publish("sensors/1", b"20", qos=1, retain=True)
            await sensor.publish("sensors/1", b"21.5", qos=1, retain=True)
            await sensor.publish("sensors/2", b"old news", qos=1)
            await sensor.publish("sensors/3", b"x", qos=1, retain=True)
            await sensor.publish("sensors/3", b"", qos=1, retain=True)  # cleared
            for door in (here, later):
                async with client(door, "panel") as panel:
                    for number in (1, 2, 3):
                        await panel.subscribe(f"sensors/{number}", qos=1)
                    await panel.publish("sensors/2", b"live", qos=1)
                    got = []
                    async for message in panel.messages:
                        got.append((str(message.topic), message.payload, message.retain))
                        if message.payload == b"live":
                            break
                assert got == [("sensors/1", b"21.5", True), ("sensors/2", b"live", False)]

    loops.run(asyncio.wait_for(main(), 60))


def test_qos_1_is_acknowledged_when_an_archive_has_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            first = await enter(Node())
            store = f"sqlite:///{tmp_path}/events.db"
            await enter(Archive(["/orders"], store, bootstrap=[str(first.address)]))
            door = await enter(MqttDoor(first, "127.0.0.1:0", durable=["/orders"]))
            async with client(door, "shop") as shop:
                for number in range(3):
                    await shop.publish("orders/new", b"%d" % number, qos=1 + number % 2)
            name = {"durable": "books", "since": "beginning"}
            events = await enter(first.subscribe("/orders", **name))
            found = []
            async for event in events:
                message = message_in(event.topic, event.data)
                assert message is not None
                found.append(message.payload)
                if len(found) == 3:
                    break
            assert found == [b"0", b"1", b"2"]

    loops.run(asyncio.wait_for(main(), 60))


def test_a_message_that_waits_for_an_archive_holds_up_no_other_topic() -> None:
    async def main() -> None:
        async with (
            Node() as node,
            MqttDoor(node, "127.0.0.1:0", durable=["/orders"]) as door,
            client(door, "shop") as shop,
            client(door, "sensor") as sensor,
        ):
            waiting = asyncio.create_task(shop.publish("orders/1", b"x", qos=1, timeout=60))
            for number in range(20):
                await sensor.publish("sensors/1", b"%d" % number, qos=1)
                await shop.publish("sensors/2", b"%d" % number, qos=1)
            assert not waiting.done(), "nobody keeps orders"
            waiting.cancel()

    loops.run(asyncio.wait_for(main(), 25))


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0"])
def test_a_port_that_is_taken_is_named_in_one_sentence(address: str) -> None:
    async def main() -> None:
        async with Node() as node, MqttDoor(node, address) as door:
            text = f"MQTT cannot be served on {door.address}: address already in use; choose another port"
            for again in (
                MqttDoor(node, str(door.address)),
                MqttDoor(node, websocket=str(door.address)),
            ):
                with pytest.raises(NetworkError, match=re.escape(text)):
                    await again.__aenter__()

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("sealed", [True, False], ids=["tls", "without-epoll"])
def test_clients_whose_connection_the_loop_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    monkeypatch.setattr(server, "CAN_HOLD", False)
    certificate, key = make_certificate(tmp_path)
    tls = (certificate, key) if sealed else None

    async def main() -> None:
        async with Node() as node, MqttDoor(node, "127.0.0.1:0", tls=tls) as door:
            context = ssl.create_default_context(cafile=str(certificate)) if sealed else None
            async with client(door, "c", tls_context=context) as one:
                await one.subscribe("a", qos=1)
                await one.publish("a", b"sealed", qos=1)
                assert (await anext(one.messages)).payload == b"sealed"

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="no mosquitto_sub here")
@pytest.mark.parametrize("version", ["311", "5"])
def test_mosquitto_clients(version: str) -> None:
    async def main() -> None:
        async with Node() as node, MqttDoor(node, "127.0.0.1:0") as door:
            assert door.address is not None
            at = ["-h", "127.0.0.1", "-p", str(door.address.port), "-V", version]
            for qos in "012":
                writer = await asyncio.create_subprocess_exec(
                    *["mosquitto_pub", *at, "-t", f"a/{qos}", "-q", qos, "-m", f"m{qos}", "-r"]
                )
                assert await writer.wait() == 0
            reader = await asyncio.create_subprocess_exec(
                *["mosquitto_sub", *at, "-t", "a/#", "-q", "2", "-C", "3", "-v"],
                stdout=subprocess.PIPE,
            )
            out, _ = await reader.communicate()
            assert reader.returncode == 0
            assert sorted(out.decode().splitlines()) == ["a/0 m0", "a/1 m1", "a/2 m2"]

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("command", ["node", "distributor"])
def test_the_command_opens_a_door_and_says_where(command: str) -> None:
    with camcast(command, "--mqtt", "127.0.0.1:0", "--json") as process:
        assert "listening" in json.loads(line(process))
        host, port = json.loads(line(process))["mqtt"].rsplit(":", 1)

        async def main() -> None:
            async with aiomqtt.Client(host, int(port)) as one:
                await one.subscribe("a")
                await one.publish("a", b"through the door")
                assert (await anext(one.messages)).payload == b"through the door"

        loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mqtt-retain", "/a"], "--mqtt-retain goes with --mqtt"),
        (["--mqtt", "nowhere"], "nowhere"),
        (["--mqtt", "127.0.0.1:0", "--tls", "no.crt", "no.key"], "not a certificate"),
        (["--mqtt", "127.0.0.1:0", "--mqtt-durable", "soccer"], "slash"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", *words]) == 1
    assert said in capsys.readouterr().err
