"""A door for browsers and scripts: publish by POST, follow a topic by Server-Sent Events or WebSocket.

    POST /topics/soccer/italy      publishes the body: JSON, text, or bytes of any other type
    GET  /topics/soccer            the topic's events, its subtopics' too, as a stream (text/event-stream)
    GET  /topics/soccer            with an upgrade: a WebSocket that brings events, and publishes what is sent
    GET  /openapi.json, /openapi   this, for programs and for people

A stream that breaks goes on where it was: the browser sends the id of the last event it had, and the door,
which keeps the latest events of the topics that are followed, sends what came after it. When the door does
not have that event any more, the stream begins with an event of type `gap`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from aiohttp import WSMsgType, web

from overlay.bounded import Budget
from overlay.contact import Address
from overlay.errors import CamcastError, NetworkError, UsageError, check_positive
from pubsub.data import DATA_LIMIT
from pubsub.doors.feeds import Feed, Reader
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.openapi import OPENAPI, page
from pubsub.doors.serving import (
    CHALLENGE,
    TOKEN_NEEDED,
    Bodies,
    Tokens,
    certificate,
    is_own_page,
    serve,
)
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.text import json_line
from pubsub.topic import is_reserved

_ROOM_FOR_JSON = 64 * 1024
"""Bytes of a body beyond the limit of an event: JSON is longer than msgpack."""


@dataclass(frozen=True)
class HttpConfig:
    """What the door allows."""

    most_streams: int = 5_000
    """Streams and WebSockets at one time; further ones are refused with 503. And topics that are followed:
    one without a reader makes way."""
    waiting_events: int = 1_000
    """Events that may wait for one reader; when there are more, the oldest are dropped and counted."""
    waiting_bytes: int = 64 * 1024 * 1024
    """Of the JSON that waits for all readers together; those that have more than an equal share of it lose
    their oldest events, which are counted."""
    kept_events: int = 1_000
    """The latest events of each topic that is followed, for readers that come back."""
    kept_bytes: int = 64 * 1024 * 1024
    """Of the JSON that is kept of all topics together; those that have more than an equal share of it keep
    fewer."""
    kept_seconds: float = 60.0
    """How long a topic is followed after its last reader has gone."""
    heartbeat_seconds: float = 15.0
    """Between two signs of life on a stream that has nothing to say."""
    most_bodies: int = 64
    """Bodies that are being received at one time, each of 1 MiB and a little at most; further ones are
    refused with 503."""
    body_seconds: float = 30.0
    """How long one body may take to come whole; then it is refused with 408."""

    def __post_init__(self) -> None:
        check_positive(self)


class HttpDoor:
    """Serves while it is entered."""

    def __init__(
        self,
        node: Node,
        listen: str,
        *,
        tls: tuple[str | Path, str | Path] | None = None,
        tokens: Sequence[str] = (),
        origins: Sequence[str] = (),
        config: HttpConfig | None = None,
    ) -> None:
        """`tokens`: with any, a request must bring one, as `Authorization: Bearer TOKEN` or, since
        a browser's EventSource sets no headers, as `?token=TOKEN`. `origins`: the web pages that may
        use the door from a browser, such as `https://example.org`, or `*` for all."""
        self._node = node
        self._listen = Address.parse(listen)
        self._tls: ssl.SSLContext | None = None if tls is None else certificate(*tls)
        self._tokens = Tokens(tokens)
        self._origins = tuple(origins)
        self._config = config or HttpConfig()
        self._open_paths: set[str] = set()
        """What may be asked for without a token."""
        self._feeds: dict[str, Feed] = {}
        self._streams = 0
        self._waiting = Budget(self._config.waiting_bytes)
        self._kept = Budget(self._config.kept_bytes)
        self._bodies = Bodies(self._config.most_bodies, self._config.body_seconds)
        self._stack = AsyncExitStack()
        self._dropped = node.metrics.counter(
            "http_events_dropped", "Events that an HTTP client was too slow for"
        )
        self._requests = node.metrics.family(
            "http_requests", "outcome", "Requests of HTTP clients, by what became of them"
        )

    async def __aenter__(self) -> Self:
        app = web.Application(
            middlewares=[self._guard], client_max_size=DATA_LIMIT + _ROOM_FOR_JSON
        )
        self._add_routes(app)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_feeds)
            self.address = await serve(stack, app, self._listen, self._tls, "HTTP")
            self._stack = stack.pop_all()
        return self

    def _add_routes(self, app: web.Application) -> None:
        app.router.add_post("/topics{topic:.*}", self._publish)
        # An answer to HEAD has no body, and a stream is nothing else.
        app.router.add_get("/topics{topic:.*}", self._follow, allow_head=False)
        app.router.add_get("/openapi.json", self._describe)
        app.router.add_get("/openapi", self._explain)

    async def __aexit__(self, *_: object) -> None:
        for feed in self._feeds.values():
            feed.end()
        await self._stack.aclose()

    async def _end_feeds(self) -> None:
        for feed in list(self._feeds.values()):
            await feed.close()

    # -- every request --

    @web.middleware
    async def _guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Ask for the token, answer errors as JSON, and tell browsers which pages may ask."""
        try:
            if request.method == "OPTIONS":
                response: web.StreamResponse = web.Response(status=204)
            elif not self._is_own_page(request):
                response = _problem(403, "pages of this origin may not use the door: --origin")
            elif not self._is_allowed(request):
                response = _problem(401, TOKEN_NEEDED)
                response.headers.update(CHALLENGE)
            else:
                response = await handler(request)
        except web.HTTPException as error:
            response = _problem(error.status, error.reason)
        except NetworkError as error:
            response = _problem(503, str(error))
        except CamcastError as error:
            response = _problem(400, str(error))
        self._requests.add("refused" if response.status >= 400 else "served")
        if not response.prepared:
            response.headers.update(self._cors(request))
        return response

    def _is_own_page(self, request: web.Request) -> bool:
        """Whether a browser may do this for its page; what it may not read, it may ask for."""
        is_question = request.method == "GET" and "Upgrade" not in request.headers
        return is_question or is_own_page(request, self._origins)

    def _is_allowed(self, request: web.Request) -> bool:
        return request.path in self._open_paths or self._tokens.allow(request)

    def _cors(self, request: web.Request) -> dict[str, str]:
        origin = request.headers.get("Origin", "")
        if not origin or not ("*" in self._origins or origin in self._origins):
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
            "Access-Control-Allow-Methods": "GET, POST",
            "Vary": "Origin",
        }

    # -- publishing --

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        data = _data(request.content_type, await self._bodies.read(request))
        durable = _flag(request, "durable")
        receipt = await self._node.publish(
            _topic(request), data, durable=durable, wait="safe" if durable else "acked"
        )
        return _json(_receipt(receipt), 201)

    # -- following --

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        topic = _topic(request)
        if self._streams >= self._config.most_streams:
            return _problem(503, "the door has no room for another stream")
        self._streams += 1
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._talk(request, topic)
            return await self._stream(request, topic)
        finally:
            self._streams -= 1

    async def _stream(self, request: web.Request, topic: str) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID") or request.query.get("last_event_id")
        async with self._reading(topic, last) as reader:
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream; charset=utf-8",
                    "Cache-Control": "no-cache",
                    **self._cors(request),
                }
            )
            await response.prepare(request)
            with suppress(ConnectionError):
                await response.write(b": following\n\n")
                while (lines := await self._next(reader)) is not None:
                    await response.write(lines)
        return response

    async def _next(self, reader: Reader) -> bytes | None:
        """What is to be written next: an event, a gap, or a sign of life; None at the end."""
        try:
            async with asyncio.timeout(self._config.heartbeat_seconds):
                shown = await reader.next()
        except TimeoutError:
            return b":\n\n"
        if shown is None:
            return None
        head = f"id: {shown.id}" if shown.id else "event: gap"
        return f"{head}\ndata: {shown.text}\n\n".encode()

    async def _talk(self, request: web.Request, topic: str) -> web.StreamResponse:
        """A WebSocket: events as JSON objects one way; `{"topic": ..., "data": ...}` to publish the other."""
        socket = web.WebSocketResponse(
            heartbeat=self._config.heartbeat_seconds, max_msg_size=DATA_LIMIT + _ROOM_FOR_JSON
        )
        async with self._reading(topic, request.query.get("last_event_id")) as reader:
            await socket.prepare(request)

            async def write() -> None:
                with suppress(ConnectionError):
                    while (shown := await reader.next()) is not None:
                        await socket.send_str(shown.text)
                    await socket.close()

            writing = asyncio.create_task(write())
            try:
                async for message in socket:
                    if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                        break
                    await socket.send_str(json_line(await self._obey(message.data, topic)))
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
        return socket

    async def _obey(self, text: str | bytes, topic: str) -> dict[str, Any]:
        """Publish what a client has sent over a WebSocket, and say what became of it."""
        try:
            asked = json.loads(text)
            if not isinstance(asked, dict) or not asked.keys() <= {"topic", "data", "durable"}:
                raise UsageError('write {"topic": "/soccer/italy", "data": ...}')
            durable = asked.get("durable", False)
            if not isinstance(durable, bool):
                raise UsageError(f"durable is true or false, not {durable!r}")
            receipt = await self._node.publish(
                _open_topic(asked.get("topic", topic)),
                asked.get("data"),
                durable=durable,
                wait="safe" if durable else "sent",
            )
        except CamcastError as error:  # the first of the two: a `UsageError` is a `ValueError` too
            return {"error": str(error)}
        except (ValueError, RecursionError):
            return {"error": "what was sent is not JSON"}
        return {"published": receipt.id.hex(), "topic": receipt.topic}

    @asynccontextmanager
    async def _reading(self, topic: str, last: str | None) -> AsyncIterator[Reader]:
        """One reader more of a topic; the topic is followed from now on at the latest."""
        feed = self._feeds.get(topic)
        if feed is None:
            if len(self._feeds) >= self._config.most_streams:
                idle = [one for one in self._feeds.values() if one.is_idle]
                if idle:
                    idle[0].expire()
            feed = self._feeds[topic] = Feed(
                self._node,
                topic,
                most_kept=self._config.kept_events,
                budget=self._kept,
                seconds=self._config.kept_seconds,
                forget=self._forget,
            )
        await feed.ready()
        reader = Reader(self._config.waiting_events, self._waiting, self._dropped.add)
        feed.add(reader, last)
        try:
            yield reader
        finally:
            feed.remove(reader)

    def _forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.topic) is feed:
            del self._feeds[feed.topic]

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        return _json(OPENAPI)

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=page(), content_type="text/html")


def _topic(request: web.Request) -> str:
    return _open_topic(request.match_info["topic"] or "/")


def _open_topic(topic: str) -> str:
    """The topic; `UsageError` when nodes talk among themselves there."""
    if isinstance(topic, str) and is_reserved(topic):
        raise UsageError(f"{topic:.200} is for nodes alone: choose another topic")
    return topic


def _flag(request: web.Request, name: str) -> bool:
    value = request.query.get(name, "false")
    if value not in ("true", "false"):
        raise UsageError(f"{name} is true or false, not {value!r:.40}")
    return value == "true"


def _data(kind: str, body: bytes) -> Any:
    """The data of an event from a request's body; bytes of a type of their own keep it."""
    try:
        if kind == "application/json":
            return json.loads(body, parse_constant=_refuse_constant)
        if kind.startswith("text/"):
            return body.decode()
    except (ValueError, RecursionError):
        raise UsageError(f"the body is not {kind}") from None
    if kind == "application/octet-stream":
        return body
    if not (kind.isascii() and kind.isprintable()):
        raise UsageError(f"the type of the body, {kind!r:.40}, is not printable ASCII")
    return MqttMessage("", body, properties={"content_type": kind}).to_data()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON, though Python reads it")


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id.hex(),
        "topic": receipt.topic,
        "sent": receipt.sent,
        "acknowledged": receipt.acknowledged,
        "safe": receipt.durable is not None,
    }


def _json(body: Any, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


def _problem(status: int, text: str) -> web.Response:
    return _json({"error": text}, status)
