"""The door itself: listens over TCP, TLS and WebSocket, and connects the hub to a node.

    async with Node(...) as node, MqttDoor(node, "127.0.0.1:1883", durable=["/soccer"]):
        ...

A message of QoS 0 is published as any event is. With QoS 1 and 2, PUBACK and PUBREC are sent when the members
that the event was sent to have it, or, for topics under `durable`, when it is safe at an archive; a message
that cannot be made safe is not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

from overlay.contact import Address
from overlay.errors import UsageError
from pubsub.doors.mqtt.authentication import Authenticator
from pubsub.doors.mqtt.bridge import open_hub
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.network import Access, MqttConfig
from pubsub.doors.serving import certificate, is_own_page, serve
from pubsub.doors.sockets import (
    CAN_HOLD,
    FULL_BYTES,
    GATHERED_BYTES,
    LINGER_SECONDS,
    Sockets,
    Turn,
    listening_on,
)
from pubsub.node import Node
from pubsub.topic import Topic


class MqttDoor:
    """Serves MQTT clients while it is entered."""

    def __init__(
        self,
        node: Node,
        listen: str | None = None,
        *,
        websocket: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        durable: Sequence[str] = (),
        retain: Sequence[str] = (),
        sessions: bool = False,
        origins: Sequence[str] = (),
        access: Access | None = None,
        authenticator: Authenticator | None = None,
        config: MqttConfig | None = None,
    ) -> None:
        """`listen` is for TCP, or for TLS with a certificate and its key as `tls`; `websocket` for WebSocket,
        with any path. `durable`: topics whose messages of QoS 1 and 2 an archive must have. `retain`: topics
        that the door listens to though no client is subscribed, to know their retained messages.

        `sessions`: sessions that outlive a connection are kept at the archive of `/mqtt-sessions`,
        which must be there, so that a client can go on at another door. All doors that it may go to
        need this.

        `origins`: the web pages that may connect over WebSocket, such as `https://example.org`, or `*` for
        all.

        `authenticator` knows methods of enhanced authentication (`Scram` is one).

        `access` says who may connect, publish and subscribe; a client that the authenticator has let in is
        not asked of it as it connects. Without it, everybody may, or with an authenticator all whom that
        lets in."""
        if listen is None and websocket is None:
            raise UsageError("a door for MQTT needs an address: listen, websocket or both")
        self._node = node
        self._listen = None if listen is None else Address.parse(listen)
        self._websocket = None if websocket is None else Address.parse(websocket)
        self._tls = None if tls is None else certificate(*tls)
        self._durable = [Topic.of(topic) for topic in durable]
        self._retain = [Topic.of(topic).name for topic in retain]
        self._sessions = sessions
        self._origins = tuple(origins)
        self._access = access
        self._authenticator = authenticator
        self._config = config or MqttConfig()
        self._stack = AsyncExitStack()
        self.address: Address | None = None
        """Where TCP clients connect, once the door is entered."""
        self.websocket_address: Address | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            hub = await open_hub(
                stack,
                self._node,
                self._access,
                self._config,
                durable=self._durable,
                retain=self._retain,
                sessions=self._sessions,
                authenticator=self._authenticator,
            )
            stack.push_async_callback(self._end_connections, hub)
            if self._listen is not None and self._tls is None and CAN_HOLD:
                self.address = self._serve(stack, hub, self._listen)
            elif self._listen is not None:
                self.address = await self._serve_by_loop(stack, hub, self._listen)
            if self._websocket is not None:
                self.websocket_address = await self._serve_websocket(stack, hub, self._websocket)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _serve(self, stack: AsyncExitStack, hub: Hub, at: Address) -> Address:
        sockets = Sockets(asyncio.get_running_loop())

        async def close() -> None:
            sockets.stop_listening()
            await self._end_connections(hub)  # behind what they are told as they end
            await sockets.close()

        stack.push_async_callback(close)
        listening = listening_on(at, "MQTT")
        sockets.listen(listening, hub.accept)
        return Address(*listening.getsockname()[:2])

    async def _serve_by_loop(self, stack: AsyncExitStack, hub: Hub, at: Address) -> Address:
        """As `_serve`, with a transport of the event loop for each client."""
        loop = asyncio.get_running_loop()
        turn = Turn(loop)
        server = await loop.create_server(
            lambda: _Stream(hub, turn),
            sock=listening_on(at, "MQTT"),
            ssl=self._tls,
            backlog=1024,
            ssl_handshake_timeout=self._config.connect_seconds if self._tls else None,
        )
        stack.callback(server.close)
        return Address(*server.sockets[0].getsockname()[:2])

    async def _serve_websocket(self, stack: AsyncExitStack, hub: Hub, at: Address) -> Address:
        from aiohttp import web

        async def answer(request: web.Request) -> web.StreamResponse:
            if not is_own_page(request, self._origins):
                raise web.HTTPForbidden(text="pages of this origin may not connect: --origin")
            socket = web.WebSocketResponse(
                protocols=("mqtt",), max_msg_size=self._config.largest_packet
            )
            await socket.prepare(request)
            await _serve_socket(hub, socket)
            return socket

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        return await serve(stack, app, at, self._tls, "MQTT")

    async def _end_connections(self, hub: Hub) -> None:
        for connection in list(hub.connections.values()):
            connection.shut_down()
        await asyncio.sleep(0)


class _Stream(asyncio.Protocol):
    """A connection that the event loop holds, over TLS: a `Link` of the hub."""

    __slots__ = (
        "_connection",
        "_gathered",
        "_hub",
        "_is_ending",
        "_is_full",
        "_size",
        "_transport",
        "_turn",
    )

    def __init__(self, hub: Hub, turn: Turn) -> None:
        self._hub = hub
        self._turn = turn
        self._gathered: list[bytes] = []
        self._size = 0
        self._is_full = False
        self._is_ending = False

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport
        transport.set_write_buffer_limits(high=FULL_BYTES)
        self._connection = self._hub.accept(self)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._connection.feed(data)
        if self._connection.is_busy:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(0.01, self._go_on)

    def _go_on(self) -> None:
        if self._transport.is_closing():
            return
        if self._connection.is_busy:
            asyncio.get_running_loop().call_later(0.01, self._go_on)
        else:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.lost()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._connection.writable()

    @property
    def is_full(self) -> bool:
        return self._is_full

    def write(self, data: bytes) -> None:
        """What is written within one turn of the loop leaves together."""
        if self._is_ending:
            return
        if not self._gathered:
            self._turn.add(self)
        self._gathered.append(data)
        self._size += len(data)
        if self._size > GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._gathered:
            gathered, self._gathered, self._size = self._gathered, [], 0
            self._transport.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def close(self) -> None:
        """End behind what was written. The client is read for a moment longer: what it has sent meanwhile
        would otherwise reset the connection, and the client would not see why it ended."""
        if self._is_ending or self._transport.is_closing():
            return
        self.flush()
        self._is_ending = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()


class _SocketLink:
    """One WebSocket connection: a `Link` of the hub. A task of its own writes, so that order is kept."""

    def __init__(self, hub: Hub) -> None:
        self.connection = hub.accept(self)
        self.packets: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size > FULL_BYTES

    def write(self, data: bytes) -> None:
        self._size += len(data)
        self.packets.put_nowait(data)

    async def next(self) -> bytes | None:
        """What waits to be written, as one message; None at the end."""
        data = await self.packets.get()
        if data is None or self.packets.empty():
            return data
        gathered = [data]
        while not self.packets.empty():
            more = self.packets.get_nowait()
            if more is None:
                self.packets.put_nowait(None)  # the end comes behind this
                break
            gathered.append(more)
        return b"".join(gathered)

    def written(self, data: bytes) -> None:
        was_full = self.is_full
        self._size -= len(data)
        if was_full and not self.is_full:
            self.connection.writable()

    def close(self) -> None:
        self.packets.put_nowait(None)


async def _serve_socket(hub: Hub, socket: Any) -> None:
    """Speak MQTT over a WebSocket until either side ends it (section 6)."""
    from aiohttp import WSMsgType

    link = _SocketLink(hub)

    async def write() -> None:
        with suppress(ConnectionError):
            while (data := await link.next()) is not None:
                await socket.send_bytes(data)
                link.written(data)
        await socket.close()

    writing = asyncio.create_task(write())
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            link.connection.feed(message.data)
            while link.connection.is_busy:  # noqa: ASYNC110 (as over TCP)
                await asyncio.sleep(0.01)
    finally:
        link.connection.lost()
        await writing
