"""The door itself: listens over TCP, TLS and WebSocket, and connects the hub to a node.

    async with Node(...) as node, MqttDoor(node, "127.0.0.1:1883", durable=["/soccer"]):
        ...

A message of QoS 0 is published as any event is. With QoS 1 and 2, PUBACK and PUBREC are sent when the members
that the event was sent to have it, or, for topics under `durable`, when it is safe at an archive; a message
that cannot be made safe is not acknowledged.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from overlay.contact import Address
from overlay.entropy import entropy
from overlay.errors import CamcastError, NetworkError, UsageError
from pubsub.archive.errors import Displaced
from pubsub.doors.mqtt.hub import Access, Follower, Hub, MqttConfig, Open
from pubsub.doors.mqtt.message import MqttMessage, message_in, topic_of
from pubsub.doors.mqtt.packets import (
    Reason,
)
from pubsub.doors.serving import certificate, in_use, serve
from pubsub.event import Event
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.archive.durable_event import DurableEvent
    from pubsub.archive.durable_subscription import DurableSubscription

FULL_BYTES = 256 * 1024
"""Bytes that may wait to be written to a client before messages of QoS 0 are dropped for it."""

MOST_PENDING = 512
"""Messages of one client that wait to be published before no more is read from it."""

SEEN_EVENTS = 65_536
"""Events that are remembered, since two subscriptions of the door may bring the same one."""

MOST_HELD = 64
"""Messages that a door takes from an archive for one subscription before the client has them."""

DOORS = "/mqtt-doors"
"""The topic on which doors tell each other which subscriptions of clients they have taken over."""

FIND_SECONDS = 10.0
"""How long an archive is looked for when a client subscribes."""

LINGER_SECONDS = 1.0
"""How long a connection that the door has ended is read, and what comes thrown away."""


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
        access: Access | None = None,
        config: MqttConfig | None = None,
    ) -> None:
        """`listen` is for TCP, or for TLS with a certificate and its key as `tls`; `websocket` for WebSocket,
        with any path. `durable`: topics whose messages of QoS 1 and 2 an archive must have. `retain`: topics
        that the door listens to though no client is subscribed, to know their retained messages. `access`
        says who may connect, publish and subscribe: without it, everybody may."""
        if listen is None and websocket is None:
            raise UsageError("a door for MQTT needs an address: listen, websocket or both")
        self._node = node
        self._listen = None if listen is None else Address.parse(listen)
        self._websocket = None if websocket is None else Address.parse(websocket)
        self._tls = None if tls is None else certificate(*tls)
        self._durable = [Topic.of(topic) for topic in durable]
        self._retain = [Topic.of(topic).name for topic in retain]
        self._access = access or Open()
        self._config = config or MqttConfig()
        self._stack = AsyncExitStack()
        self.address: Address | None = None
        """Where TCP clients connect, once the door is entered."""
        self.websocket_address: Address | None = None

    async def __aenter__(self) -> Self:
        clock = self._node.attachment.runtime.context("datagram")
        async with AsyncExitStack() as stack:
            bridge = _Bridge(self._node, self._durable)
            stack.push_async_callback(bridge.close)
            name = f"camcast-{self._node.id.hex()[:12]}"
            hub = bridge.hub = Hub(
                clock, bridge, self._config, self._access, self._node.metrics, name
            )
            await bridge.meet()
            for topic in self._retain:
                await bridge.watched(topic)
            stack.push_async_callback(self._end_connections, hub)
            if self._listen is not None:
                self.address = await self._serve(stack, hub, self._listen)
            if self._websocket is not None:
                self.websocket_address = await self._serve_websocket(stack, hub, self._websocket)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, stack: AsyncExitStack, hub: Hub, at: Address) -> Address:
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: _Stream(hub), at.host, at.port, ssl=self._tls, backlog=1024
            )
        except OSError as error:
            raise in_use(at, "MQTT", error) from None
        stack.callback(server.close)
        host, port = server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def _serve_websocket(self, stack: AsyncExitStack, hub: Hub, at: Address) -> Address:
        from aiohttp import web

        async def answer(request: web.Request) -> web.WebSocketResponse:
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
    """One TCP or TLS connection: a `Link` of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_full = False
        self._is_ending = False

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport
        transport.set_write_buffer_limits(high=FULL_BYTES)
        # A client that vanished without a word, and asked for no keep alive, is found out by the kernel.
        keep_alive(transport.get_extra_info("socket"))
        self._connection = self._hub.accept(self)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._connection.feed(data)
        if self._connection.pending >= MOST_PENDING:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(0.01, self._go_on)

    def _go_on(self) -> None:
        if self._transport.is_closing():
            return
        if self._connection.pending >= MOST_PENDING:
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
        if not self._is_ending:
            self._transport.write(data)

    def close(self) -> None:
        """End behind what was written. The client is read for a moment longer: what it has sent meanwhile
        would otherwise reset the connection, and the client would not see why it ended."""
        if self._is_ending or self._transport.is_closing():
            return
        self._is_ending = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()


def keep_alive(connected: socket.socket) -> None:
    """Have the kernel ask the other side every ten seconds, after a minute of silence; six times."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):  # not everywhere
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


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
            while (data := await link.packets.get()) is not None:
                await socket.send_bytes(data)
                link.written(data)
        await socket.close()

    writing = asyncio.create_task(write())
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            link.connection.feed(message.data)
    finally:
        link.connection.lost()
        await writing


_Waiting = deque[tuple[MqttMessage, Callable[[Reason], None]]]


class _Bridge:
    """The hub's `Network`: publishes on the node, and keeps a subscription for each topic that is watched."""

    hub: Hub

    def __init__(self, node: Node, durable: Sequence[Topic]) -> None:
        self._node = node
        self._durable = durable
        self._waiting: dict[str, _Waiting] = {}
        """What is to be published, by topic."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._watched: dict[str, _Watch] = {}
        self._followed: dict[str, _Followed] = {}
        self._id = entropy().randbytes(8)
        """Tells this door from others, of this node too."""
        self._seen: dict[bytes, None] = {}

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    # -- publishing --

    def publish(self, message: MqttMessage, done: Callable[[Reason], None]) -> None:
        """Publish behind what waits of the topic already: the order of its messages stays, and a topic that
        has to be joined, or has no archive, holds up no other."""
        topic = topic_of(message.topic)
        waiting = self._waiting.get(topic)
        if waiting is None:
            waiting = self._waiting[topic] = deque()
            self._start(self._publish_all(topic, waiting))
        waiting.append((message, done))

    async def _publish_all(self, topic: str, waiting: _Waiting) -> None:
        try:
            while waiting:
                message, done = waiting.popleft()
                try:
                    await self._publish(topic, message, done)
                except CamcastError:
                    self.hub.drop("not_published")
                    done(Reason.UNSPECIFIED)
        finally:
            del self._waiting[topic]

    async def _publish(
        self, topic: str, message: MqttMessage, done: Callable[[Reason], None]
    ) -> None:
        data = message.to_data()
        if not message.qos:
            await self._node.publish(topic, data)
            done(Reason.SUCCESS)
            return
        if any(one.includes(Topic.of(topic)) for one in self._durable):
            receipt = await self._node.publish(topic, data, durable=True, wait="sent")
            self._start(self._when_safe(receipt, done))
            return
        receipt = await self._node.publish(topic, data)
        if self._node.config.links == "datagram":
            done(Reason.SUCCESS)
        else:
            self._start(self._when_acked(receipt, done))

    async def _when_acked(self, receipt: Receipt, done: Callable[[Reason], None]) -> None:
        await receipt.wait_settled()
        done(Reason.SUCCESS)

    async def _when_safe(self, receipt: Receipt, done: Callable[[Reason], None]) -> None:
        from pubsub.archive.protocol.config import DEADLINE
        from pubsub.archive.publishing import wait_until_safe

        try:
            await wait_until_safe(receipt, DEADLINE)
        except CamcastError:
            self.hub.drop("not_safe")
            done(Reason.UNSPECIFIED)
        else:
            done(Reason.SUCCESS)

    # -- watching --

    def watch(self, topic: str, ready: Callable[[Reason], None]) -> None:
        watch = self._watched.get(topic)
        if watch is None:
            watch = self._watched[topic] = _Watch()
            watch.task = self._start(self._listen(topic, watch))
        watch.count += 1
        if watch.is_ready:
            ready(Reason.SUCCESS)
        else:
            watch.waiting.append(ready)

    def keeps(self, topic: str) -> bool:
        return any(one.includes(Topic.of(topic)) for one in self._durable)

    def follow(self, name: str, topic: str, follower: Follower, afresh: bool) -> _Followed:
        events = self._node.subscribe(topic, durable=name, within=FIND_SECONDS)
        followed = _Followed(events, follower)
        before = self._followed.get(name)
        self._followed[name] = followed
        followed.task = self._start(self._follow(followed, before, afresh))
        followed.ended = self._start(self._until_over(name, followed))
        return followed

    async def meet(self) -> None:
        """Listen to other doors, where an archive keeps anything for clients: who moves is let go here."""
        if self._durable:
            events = await self._node.subscribe(DOORS).__aenter__()
            self._start(self._hear(events))

    async def _hear(self, events: Subscription) -> None:
        async for event in events:
            said = event.data
            if isinstance(said, dict) and said.get("door") != self._id:
                name = said.get("name")
                followed = self._followed.get(name) if isinstance(name, str) else None
                if followed is not None:
                    followed.follower.displaced()

    async def _until_over(self, name: str, followed: _Followed) -> None:
        """Wait until nothing is taken from the archive for it any more, and the archive knows."""
        await asyncio.wait([followed.task])
        if followed.is_ending:
            with suppress(CamcastError):
                await (followed.events.leave() if followed.forget else followed.events.close())
        if self._followed.get(name) is followed:
            del self._followed[name]

    async def _follow(self, followed: _Followed, before: _Followed | None, afresh: bool) -> None:
        """Bring what an archive keeps for a client, a few messages at a time, until the client has them."""
        events, follower = followed.events, followed.follower
        is_ready = False
        try:
            if before is not None:
                await asyncio.wait([before.ended])
            await self._node.publish(DOORS, {"door": self._id, "name": events.name})
            await events.__aenter__()
            if afresh:
                await events.seek("now")
            is_ready = True
            follower.ready(Reason.SUCCESS)
            while True:
                await followed.room.wait()
                for event in await events.fetch(followed.left, keep=True):
                    followed.give(event)
        except Displaced:
            follower.displaced()
        except CamcastError:
            self.hub.drop("archive_lost")
            if not is_ready:
                follower.ready(Reason.UNSPECIFIED)
        except asyncio.CancelledError:
            if not followed.is_ending:
                await (
                    events.close()
                )  # the door closes: the archive keeps everything for another one
            raise

    async def watched(self, topic: str) -> None:
        """Watch, and return when the messages come."""
        ready = asyncio.get_running_loop().create_future()
        self.watch(topic, ready.set_result)
        if await ready != Reason.SUCCESS:
            raise NetworkError(f"the door cannot subscribe to {topic}")

    def unwatch(self, topic: str) -> None:
        watch = self._watched.get(topic)
        if watch is None:
            return
        watch.count -= 1
        if not watch.count:
            del self._watched[topic]
            assert watch.task is not None
            watch.task.cancel()

    async def _listen(self, topic: str, watch: _Watch) -> None:
        """Bring the messages of a topic, as long as somebody wants them."""
        try:
            async with self._node.subscribe(topic, last=True) as events:
                for event in events.take_waiting(events.last_values):
                    self._learn(event)
                watch.is_ready = True
                watch.tell(Reason.SUCCESS)
                async for event in events:
                    self._deliver(event)
        except CamcastError:
            if self._watched.get(topic) is watch:
                del self._watched[topic]
            watch.tell(Reason.UNSPECIFIED)

    def _learn(self, event: Event) -> None:
        """Take the last event of a topic, from before the door listened: what is retained, clients are given
        when they subscribe."""
        message = message_in(event.topic, event.data)
        if message is not None and message.retain:
            self.hub.retain(message)

    def _deliver(self, event: Event) -> None:
        if len(self._watched) > 1:
            if event.id in self._seen:
                return
            self._seen[event.id] = None
            if len(self._seen) > SEEN_EVENTS:
                del self._seen[next(iter(self._seen))]
        message = message_in(event.topic, event.data)
        if message is None:
            self.hub.drop("not_a_message")
        else:
            self.hub.deliver(message, event.id)


class _Followed:
    """What an archive keeps for one subscription of a client: a `Following` of the hub."""

    task: asyncio.Task[Any]
    """Takes messages from the archive."""
    ended: asyncio.Task[Any]
    """Ends when the archive knows that nothing more is taken."""

    def __init__(self, events: DurableSubscription, follower: Follower) -> None:
        self.events = events
        self.follower = follower
        self.left = MOST_HELD
        """How many more messages may be brought."""
        self.room = asyncio.Event()
        self.room.set()
        self.is_ending = False
        self.forget = False

    def give(self, event: DurableEvent) -> None:
        def done() -> None:
            event.ack()
            self.left += 1
            self.room.set()

        self.left -= 1
        if not self.left:
            self.room.clear()
        message = message_in(event.topic, event.data)
        if message is None:
            done()
        else:
            self.follower.take(message, event.id, done)

    def end(self, forget: bool) -> None:
        self.is_ending, self.forget = True, forget
        self.task.cancel()


class _Watch:
    """One topic that clients are subscribed to, and who waits for it to begin."""

    def __init__(self) -> None:
        self.count = 0
        self.is_ready = False
        self.task: asyncio.Task[Any] | None = None
        self.waiting: list[Callable[[Reason], None]] = []

    def tell(self, reason: Reason) -> None:
        waiting, self.waiting = self.waiting, []
        for ready in waiting:
            ready(reason)
