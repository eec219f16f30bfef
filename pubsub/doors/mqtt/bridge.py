"""The hub's `Network`: publishes on a node, subscribes for clients, and talks to other doors. What archives
keep for clients is the subject of `names` and `will_log`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import Any

from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import CamcastError, NetworkError
from pubsub.archive.protocol.config import DEADLINE
from pubsub.doors.mqtt.authentication import Authenticator
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.message import MqttMessage, message_in, topic_of
from pubsub.doors.mqtt.names import DOORS, Names, aged_since
from pubsub.doors.mqtt.network import Access, MqttConfig
from pubsub.doors.mqtt.other_doors import MOST_DOORS
from pubsub.doors.mqtt.packets import Reason
from pubsub.doors.mqtt.will_log import WillLog
from pubsub.event import RUN_BYTES, Event
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Topic, is_reserved

SEEN_EVENTS = 65_536
"""Events that are remembered, since two subscriptions of the door may bring the same one."""

_LOADED = ("pubsub.archive.durability", "pubsub.last_values")
"""What the node loads with its first subscription: a quarter of a second in which clients would wait."""

_Waiting = deque[tuple[MqttMessage, Callable[[Reason], None], bytes]]


async def open_hub(
    stack: AsyncExitStack,
    node: Node,
    access: Access | None,
    config: MqttConfig,
    *,
    durable: Sequence[Topic] = (),
    retain: Sequence[str] = (),
    sessions: bool = False,
    authenticator: Authenticator | None = None,
) -> Hub:
    """The hub of a door on a node, until the stack ends; connections are the caller's."""
    for module in _LOADED:
        import_module(module)
    bridge = Bridge(node, durable, sessions)
    stack.push_async_callback(bridge.close)
    clock = node.attachment.runtime.context("datagram")
    name = f"camcast-{node.id.hex()[:12]}"
    hub = Hub(clock, bridge, config, access, node.metrics, name, authenticator)
    bridge.serve(hub)
    if durable or sessions:
        node.may_repeat()
        await bridge.meet()
    for topic in retain:
        await bridge.watched(topic)
    return hub


class Bridge:
    """Keeps a subscription of the node for each topic that is watched."""

    hub: Hub

    def __init__(self, node: Node, durable: Sequence[Topic], sessions: bool) -> None:
        self._node = node
        self._durable = durable
        self.keeps_sessions = sessions
        self._waiting: dict[str, _Waiting] = {}
        """What is to be published, by topic."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._watched: dict[str, _Watch] = {}
        self.door = entropy().randbytes(8)
        """Tells this door from others, of this node too."""
        self._meeting: asyncio.Task[None] | None = None
        """Listens to other doors, once there is anything to hear."""
        self._seen: dict[bytes, None] = {}
        self._nodes: dict[bytes, PeerId] = {}
        """By door: the node that it is on."""
        self._end_suspecting = node.attachment.runtime.failure.subscribe(self._suspect)
        self._wills = wills = WillLog(node, self._start)
        self.keep_will, self.will_over, self.inherit = wills.keep_for, wills.over, wills.inherit
        self.look_for_end, self.end_elsewhere = wills.look_for_end, wills.end_elsewhere
        self._names = names = Names(node, self.door, sessions, self._start)
        self.follow, self.forget, self.open_session = names.follow, names.forget, names.open_session

    def serve(self, hub: Hub) -> None:
        self.hub = self._wills.hub = self._names.hub = hub

    async def close(self) -> None:
        self._end_suspecting()
        self.hub.doors.close()
        await self._wills.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def keeps(self, topic: str) -> bool:
        return bool(self._durable) and any(one.includes(Topic.of(topic)) for one in self._durable)

    # -- publishing --

    def publish(
        self, message: MqttMessage, done: Callable[[Reason], None], id: bytes = b""
    ) -> None:
        """Publish behind what waits of the topic already: the order of its messages stays, and a topic that
        has to be joined, or has no archive, holds up no other."""
        topic = topic_of(message.topic)
        waiting = self._waiting.get(topic)
        if waiting is None:
            if self._publish_now(topic, message, done):
                return
            waiting = self._waiting[topic] = deque()
            self._start(self._publish_all(topic, waiting))
        waiting.append((message, done, id))

    def _publish_now(
        self, topic: str, message: MqttMessage, done: Callable[[Reason], None]
    ) -> bool:
        """Whether the message could be published without waiting for anything."""
        if message.qos and self.keeps(topic):
            return False
        receipt = self._node.publish_now(topic, message.to_data(time.time()))
        if receipt is None:
            return False
        self._when_acked(message, receipt, done)
        return True

    async def _publish_all(self, topic: str, waiting: _Waiting) -> None:
        try:
            while waiting:
                message, done, id = waiting.popleft()
                if self._publish_now(topic, message, done):
                    continue
                try:
                    await self._publish(topic, message, done, id)
                except CamcastError:
                    self.hub.drop("not_published")
                    done(Reason.UNSPECIFIED)
        finally:
            del self._waiting[topic]

    async def _publish(
        self, topic: str, message: MqttMessage, done: Callable[[Reason], None], id: bytes
    ) -> None:
        data = message.to_data(time.time())
        if not message.qos or not self.keeps(topic):
            self._when_acked(message, await self._node.publish(topic, data), done)
            return
        storing: Awaitable[object]
        if id:
            run, number = id[:RUN_BYTES], int.from_bytes(id[RUN_BYTES:], "big")
            storing = self._node.publish_in_run(topic, run, number, [data])
        else:
            receipt = await self._node.publish(topic, data, durable=True, wait="sent")
            storing = receipt.wait("safe", DEADLINE)
        self._start(self._when_safe(storing, done))

    def _when_acked(
        self, message: MqttMessage, receipt: Receipt, done: Callable[[Reason], None]
    ) -> None:
        """Tell when the members that the event was sent to have it, where anybody waits for that."""
        if not message.qos or self._node.config.links == "datagram":
            done(Reason.SUCCESS)
        else:
            receipt.when_settled(partial(done, Reason.SUCCESS))

    async def _when_safe(self, storing: Awaitable[object], done: Callable[[Reason], None]) -> None:
        try:
            await storing
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
                    if not is_reserved(event.topic):
                        self._learn(event)
                watch.is_ready = True
                watch.tell(Reason.SUCCESS)
                async for some in events.batches():
                    for event in some:
                        if topic != "/" or not is_reserved(event.topic):
                            self._deliver(event)
        except CamcastError:
            if self._watched.get(topic) is watch:
                del self._watched[topic]
            watch.tell(Reason.UNSPECIFIED)

    def _learn(self, event: Event) -> None:
        """Take the last event of a topic, from before the door listened: what is retained, clients are given
        when they subscribe."""
        message = aged_since(message_in(event.topic, event.data))
        if message is not None and message.retain:
            self.hub.retain(message)

    def _deliver(self, event: Event) -> None:
        message = message_in(event.topic, event.data)
        if message is None:
            self.hub.drop("not_a_message")
            return
        # A message of QoS 2 may be published by two doors, when the first one has failed.
        key = event.id
        if len(self._watched) > 1 or message.qos == 2:
            if key in self._seen:
                return
            self._seen[key] = None
            if len(self._seen) > SEEN_EVENTS:
                del self._seen[next(iter(self._seen))]
        self.hub.deliver(message, key)

    # -- other doors --

    async def meet(self) -> None:
        """Listen to other doors: who has members of shared subscriptions, wills and names."""
        if self._meeting is None:
            self._meeting = self._start(self._begin_to_hear())
        await asyncio.shield(self._meeting)

    async def _begin_to_hear(self) -> None:
        self._start(self._hear(await self._node.subscribe(DOORS).__aenter__()))

    def tell_doors(
        self, groups: list[bytes], segments: list[bytes] | None, orphans: list[bytes]
    ) -> None:
        said: dict[str, Any] = {"door": self.door, "groups": groups}
        if segments is not None:
            said |= {"wills": segments, "orphans": orphans}
        self._start(self._tell_doors(said))

    async def _tell_doors(self, said: dict[str, Any]) -> None:
        try:
            await self.meet()
            await self._node.publish(DOORS, said)
        except CamcastError:
            self.hub.drop("doors_not_told")

    async def _hear(self, events: Subscription) -> None:
        async for event in events:
            said = event.data
            if isinstance(said, dict) and said.get("door") != self.door:
                if "groups" in said and self._is_of(event.publisher, said.get("door")):
                    wills, orphans = said.get("wills"), said.get("orphans")
                    self.hub.doors.heard(said.get("door"), said["groups"], wills, orphans)
                self._names.elsewhere(said.get("name"))

    def _is_of(self, node: PeerId, door: Any) -> bool:
        """Whether a door is on this node, which is the first one that has spoken for it: another one could
        take the door's groups from it, and its wills."""
        if type(door) is not bytes:
            return False
        if self._nodes.setdefault(door, node) != node:
            self.hub.drop("door_of_another")
            return False
        self._nodes[door] = self._nodes.pop(door)
        if len(self._nodes) > MOST_DOORS:
            del self._nodes[next(iter(self._nodes))]
        return True

    def _suspect(self, node: Contact) -> None:
        """A node seems to have crashed, and the doors on it."""
        for door in [door for door, there in self._nodes.items() if there == node.id]:
            del self._nodes[door]
            self.hub.doors.gone(door)


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
