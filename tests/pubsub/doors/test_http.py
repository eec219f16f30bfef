"""The HTTP door with a client that others wrote, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from overlay import loops
from overlay.bounded import Budget
from pubsub import Archive, Node
from pubsub.cli import main as command
from pubsub.doors import serving
from pubsub.doors.feeds import Reader, Shown
from pubsub.doors.http import HttpConfig, HttpDoor
from pubsub.doors.mqtt import message_in
from pubsub.doors.mqtt.message import MqttMessage
from tests.pubsub.doors.deaf import LARGE, UPGRADE, Deaf

Body = Callable[[aiohttp.ClientSession, Node, HttpDoor], Awaitable[None]]


def with_door(body: Body, **options: Any) -> None:
    async def main() -> None:
        async with (
            Node() as node,
            HttpDoor(node, "127.0.0.1:0", **options) as door,
            aiohttp.ClientSession(f"http://{door.address}") as session,
        ):
            await body(session, node, door)

    loops.run(asyncio.wait_for(main(), 60))


@asynccontextmanager
async def stream(
    session: aiohttp.ClientSession, path: str, **headers: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The events of a stream: the fields of each, its data from JSON."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.get(path, headers=names) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        assert await response.content.readline() == b": following\n"

        async def events() -> AsyncIterator[dict[str, Any]]:
            found: dict[str, Any] = {}
            async for line in response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "" and found:
                    yield found
                    found = {}
                elif name:
                    found[name] = json.loads(value) if name == "data" else value

        yield events()


def test_what_is_posted_is_followed() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with (
            stream(session, "/topics/soccer") as events,
            node.subscribe("/soccer") as here,
        ):
            posts: list[tuple[dict[str, Any], Any]] = [
                ({"json": {"score": [1, 0]}}, {"score": [1, 0]}),
                ({"data": "goal", "headers": {"Content-Type": "text/plain"}}, "goal"),
                ({"data": b"\0"}, b"\0"),
            ]
            for request, _ in posts:
                async with session.post("/topics/soccer/italy", **request) as response:
                    assert response.status == 201
                    answer = await response.json()
                    assert answer["topic"] == "/soccer/italy"
            for _, data in posts:
                assert (await anext(here)).data == data
            shown = [await anext(events) for _ in posts]
            assert [one["data"]["data"] for one in shown] == [{"score": [1, 0]}, "goal", "00"]
            assert [one["data"].get("encoding") for one in shown] == [None, None, "hex"]
            assert shown[-1]["id"] == shown[-1]["data"]["id"] == answer["id"]

    with_door(body)


def test_clients_have_no_part_in_what_nodes_say_among_themselves() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        for path in ("/topics/camcast", "/topics/mqtt-doors", "/topics/camcast%2Fx"):
            for asked in (session.post(path, json={"door": "x"}), session.get(path)):
                async with asked as response:
                    assert response.status == 400
                    assert "for nodes alone" in (await response.json())["error"]
        async with (
            session.ws_connect("/topics/soccer") as socket,
            stream(session, "/topics/") as events,
        ):
            await socket.send_json({"topic": "/mqtt-sessions/x", "data": 1})
            assert "for nodes alone" in (await socket.receive_json())["error"]
            await node.publish("/camcast/x", "secret")
            await node.publish("/camcasts", "open")
            assert (await anext(events))["data"]["data"] == "open"

    with_door(body)


def test_bytes_keep_the_type_that_they_were_posted_with() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with (
            stream(session, "/topics/pictures") as events,
            node.subscribe("/pictures") as here,
        ):
            picture = {"data": b"\xff\0", "headers": {"Content-Type": "image/png"}}
            async with session.post("/topics/pictures", **picture) as response:
                assert response.status == 201
            event = await anext(here)
            message = message_in(event.topic, event.data)
            assert message is not None
            assert (message.payload, message.properties) == (
                b"\xff\0",
                {"content_type": "image/png"},
            )
            shown = (await anext(events))["data"]
            assert (shown["data"], shown["encoding"], shown["type"]) == ("ff00", "hex", "image/png")

    with_door(body)


def test_a_stream_goes_on_after_the_last_event_it_had() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with stream(session, "/topics/a") as events:
            for number in range(3):
                await node.publish("/a", number)
            shown = [await anext(events) for _ in range(3)]
        await node.publish("/a/b", 3)
        async with stream(session, "/topics/a", Last_Event_ID=shown[1]["id"]) as events:
            assert [(await anext(events))["data"]["data"] for _ in range(2)] == [2, 3]
        async with stream(session, "/topics/a", Last_Event_ID="00") as events:
            gap = await anext(events)
            assert gap["event"] == "gap"
            await node.publish("/a", 4)
            assert (await anext(events))["data"]["data"] == 4

    with_door(body)


def test_events_beyond_what_is_kept_are_a_gap() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with stream(session, "/topics/a") as events:
            for number in range(4):
                await node.publish("/a", number)
            shown = [await anext(events) for _ in range(4)]
            async with stream(session, "/topics/a", Last_Event_ID=shown[0]["id"]) as late:
                assert (await anext(late))["event"] == "gap"
            async with stream(session, "/topics/a", Last_Event_ID=shown[2]["id"]) as late:
                assert (await anext(late))["data"]["data"] == 3

    with_door(body, config=HttpConfig(kept_events=2))


def test_a_websocket_brings_events_and_publishes() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with session.ws_connect("/topics/a") as socket:
            await socket.send_json({"topic": "/a/b", "data": [1]})
            got = [await socket.receive_json() for _ in range(2)]
            assert {"published", "topic"} in [set(one) for one in got]
            assert [1] in [one.get("data") for one in got]
            for wrong in ("no JSON", "[]", '{"topic": "a"}', '{"unknown": 1}'):
                await socket.send_str(wrong)
                assert set(await socket.receive_json()) == {"error"}
            await socket.send_str('{"data": 1, "durable": "yes"}')
            told = await socket.receive_json()
            assert told == {"error": "durable is true or false, not 'yes'"}
            await socket.send_bytes(b'{"data": [2]}')
            got = [await socket.receive_json() for _ in range(2)]
            assert [2] in [one.get("data") for one in got]

    with_door(body)


def test_a_payload_of_an_mqtt_client_is_shown_as_what_it_is() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with stream(session, "/topics/a") as events:
            for payload, shown in [(b'{"x": 1}', {"x": 1}), (b"warm", "warm"), (b"\xff", "ff")]:
                await node.publish("/a", MqttMessage("a", payload).to_data())
                assert (await anext(events))["data"]["data"] == shown

    with_door(body)


def test_tokens_and_origins() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        page = {"Origin": "https://example.org"}
        for headers, status in [
            ({}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": "Bearer wr\udcffng"}, 401),
            ({"Authorization": "Bearer secret"}, 201),
        ]:
            async with session.post("/topics/a", json=1, headers={**headers, **page}) as response:
                assert response.status == status
                assert ("WWW-Authenticate" in response.headers) == (status == 401)
                assert response.headers["Access-Control-Allow-Origin"] == "https://example.org"
        async with session.post("/topics/a?token=secret", json=1) as response:
            assert response.status == 201
        async with session.options("/topics/a", headers=page) as response:
            assert response.status == 204
            assert "Authorization" in response.headers["Access-Control-Allow-Headers"]
        other = {"Origin": "https://elsewhere.org"}
        async with session.options("/topics/a", headers=other) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
        for origin in ("https://elsewhere.org", "http://[", "null"):
            headers = {"Authorization": "Bearer secret", "Origin": origin}
            async with session.post("/topics/a", json=1, headers=headers) as response:
                assert response.status == 403

    with_door(body, tokens=["secret"], origins=["https://example.org"])


@pytest.mark.parametrize("said", [b"", b"GET /topics/a HTTP/1.1\r\nHost:"])
def test_connections_that_ask_for_nothing_are_ended(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SILENT_SECONDS", 0.05)

    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        reader, writer = await asyncio.open_connection(door.address.host, door.address.port)
        writer.write(said)
        assert await reader.read() == b""
        writer.close()
        async with stream(session, "/topics/a") as events:
            await asyncio.sleep(0.2)  # longer than a connection may be silent
            await node.publish("/a", 1)
            assert (await anext(events))["data"]["data"] == 1

    with_door(body)


@pytest.mark.parametrize("headers", ["", UPGRADE], ids=["stream", "websocket"])
def test_readers_that_take_nothing_are_put_out(
    headers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SILENT_SECONDS", 0.2)

    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        reader = Deaf(door.address)
        await reader.ask(headers)
        for _ in range(40):
            await node.publish("/a", LARGE)
        await reader.is_put_out()
        while door._streams:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0)

    with_door(body)


def test_bodies_that_do_not_come_are_refused() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        reader, writer = await asyncio.open_connection(door.address.host, door.address.port)
        writer.write(b"POST /topics/a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nslow")
        while not door._bodies._reading:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0)
        async with session.post("/topics/a", json=1) as response:
            assert response.status == 503, "there is room for one at a time"
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()
        async with session.post("/topics/a", json=1) as response:
            assert response.status == 201

    with_door(body, config=HttpConfig(most_bodies=1, body_seconds=1.0))


def test_what_waits_and_what_is_kept_is_bounded_by_bytes() -> None:
    async def main() -> None:
        dropped: list[str] = []
        waiting = Budget(1000)
        slow, fast = (Reader(100, waiting, lambda: dropped.append("x")) for _ in range(2))
        for number in range(20):
            shown = Shown(f"{number}", "x" * 100)
            slow.put(shown)
            fast.put(shown)
            assert await fast.next() == shown, "a reader that keeps up misses nothing"
        assert waiting.bytes <= 1000
        assert len(dropped) == 10
        huge = Shown("huge", "x" * 5000)
        fast.put(huge)
        assert waiting.bytes <= 1000
        slow.end()
        fast.end()
        assert waiting.bytes == waiting.shares == 0

    loops.run(main())

    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with stream(session, "/topics/a") as events:
            for _ in range(30):
                await node.publish("/a", "x" * 1000)
            ids = [(await anext(events))["id"] for _ in range(30)]
        assert door._kept.bytes <= 10_000
        async with stream(session, "/topics/a", Last_Event_ID=ids[-3]) as events:
            assert [(await anext(events))["id"] for _ in range(2)] == ids[-2:]
        async with stream(session, "/topics/a", Last_Event_ID=ids[0]) as events:
            assert (await anext(events))["event"] == "gap"

    with_door(body, config=HttpConfig(kept_bytes=10_000))


def test_topics_that_nobody_follows_any_more_make_way() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        for number in range(6):
            while (response := await session.get(f"/topics/a/{number}")).status == 503:  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the stream before is not gone yet
            response.close()
            assert len(door._feeds) <= 2
        assert f"/a/{number}" in door._feeds

    with_door(body, config=HttpConfig(most_streams=2, heartbeat_seconds=0.02))


@pytest.mark.parametrize(
    ("path", "request_", "status"),
    [
        ("/topics/a", {"data": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ("/topics/a", {"data": b"[NaN]", "headers": {"Content-Type": "application/json"}}, 400),
        ("/topics/a", {"data": b"\xff", "headers": {"Content-Type": "text/plain"}}, 400),
        ("/topics/a/*", {"json": 1}, 400),
        ("/topicsa", {"json": 1}, 400),
        ("/topics/a?durable=maybe", {"json": 1}, 400),
        ("/topics/a", {"data": b"x" * 1_300_000}, 413),
        ("/topics/a", {"data": b"x" * 1_060_000}, 400),
        ("/elsewhere", {"json": 1}, 404),
    ],
)
def test_wrong_requests_get_one_sentence(path: str, request_: dict[str, Any], status: int) -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with session.post(path, **request_) as response:
            assert response.status == status
            assert (await response.json())["error"]

    with_door(body)


def test_a_question_for_the_head_of_a_stream_begins_none() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with session.head("/topics/a") as response:
            assert response.status == 405
        assert not door._feeds

    with_door(body)


def test_no_more_streams_than_the_door_has_room_for() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with stream(session, "/topics/a"), session.get("/topics/b") as second:
            assert second.status == 503

    with_door(body, config=HttpConfig(most_streams=1))


def test_a_durable_post_is_safe_at_an_archive(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            node = await enter(Node())
            store = f"sqlite:///{tmp_path}/events.db"
            await enter(Archive(["/orders"], store, bootstrap=[str(node.address)]))
            door = await enter(HttpDoor(node, "127.0.0.1:0"))
            session = await enter(aiohttp.ClientSession(f"http://{door.address}"))
            async with session.post("/topics/orders?durable=true", json=7) as response:
                assert (await response.json())["safe"] is True
            events = await enter(node.subscribe("/orders", durable="books", since="beginning"))
            assert (await anext(aiter(events))).data == 7

    loops.run(asyncio.wait_for(main(), 60))


def test_streams_end_when_the_door_closes() -> None:
    async def main() -> None:
        async with Node() as node, aiohttp.ClientSession() as session:
            async with HttpDoor(node, "127.0.0.1:0") as door:
                response = await session.get(f"http://{door.address}/topics/a")
                assert await response.content.readline()
            assert await response.content.read() == b"\n"

    loops.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--origin", "*"], "--origin goes with --websocket or --http"),
        (["--http", "127.0.0.1:0", "--http-token-file", "nothing"], "cannot be read"),
        (["--http", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_on_the_command_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["node", *words]) == 1
    assert said in capsys.readouterr().err


def test_the_door_describes_itself_to_programs_and_people() -> None:
    async def body(session: aiohttp.ClientSession, node: Node, door: HttpDoor) -> None:
        async with session.get("/openapi.json") as response:
            described = await response.json()
        async with session.get("/openapi") as response:
            assert response.content_type == "text/html"
            page = await response.text()
        assert described["openapi"].startswith("3.")
        for path, methods in described["paths"].items():
            for method, about in methods.items():
                assert f"{method.upper()} {path}" in page
                assert about["summary"] in page

    with_door(body)
