"""The hub's `Network`: publishes on a node, subscribes for clients, and keeps what archives keep for them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from overlay.contact import Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import CamcastError, NetworkError
from pubsub.archive.errors import Displaced
from pubsub.doors.mqtt.authentication import Authenticator
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.kept import KeptSubscription
from pubsub.doors.mqtt.message import MqttMessage, message_in, topic_of
from pubsub.doors.mqtt.network import Access, Follower, MqttConfig, Opener
from pubsub.doors.mqtt.other_doors import MOST_DOORS
from pubsub.doors.mqtt.packets import Reason
from pubsub.doors.mqtt.session_log import FIND_SECONDS, SessionLog, log_name
from pubsub.doors.mqtt.will_log import WillLog
from pubsub.doors.mqtt.wills import KeptWill
from pubsub.event import RUN_BYTES, Event
from pubsub.node import Node
from pubsub.publishing import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.archive.durable_event import DurableEvent
    from pubsub.archive.durable_subscription import DurableSubscription

SEEN_EVENTS = 65_536
"""Events that are remembered, since two subscriptions of the door may bring the same one."""

MOST_HELD = 64
"""Messages that a door takes from an archive for one subscription before the client has them."""

MOST_RUNS = 4 * MOST_HELD
"""Publishers' runs whose place is in a session's record, those last heard of: about 72 bytes each, and each
client that publishes with QoS 2 is one. A message comes twice to a client that moves if the archive had not
noted that the client has it, and the client has had messages of more other publishers since."""

DOORS = "/mqtt-doors"
"""The topic on which doors tell each other which clients they have taken over, who has members of which
shared subscriptions, and who has which wills."""

_Waiting = deque[tuple[MqttMessage, Callable[[Reason], None], bytes]]


async def open_hub(
    stack: AsyncExitStack,
    node: Node,
    access: Access,
    config: MqttConfig,
    *,
    durable: Sequence[Topic] = (),
    retain: Sequence[str] = (),
    sessions: bool = False,
    authenticator: Authenticator | None = None,
) -> Hub:
    """The hub of a door on a node, until the stack ends; connections are the caller's."""
    bridge = Bridge(node, durable, sessions)
    stack.push_async_callback(bridge.close)
    clock = node.attachment.runtime.context("datagram")
    name = f"camcast-{node.id.hex()[:12]}"
    hub = Hub(clock, bridge, config, access, node.metrics, name, authenticator)
    bridge.hub = bridge.wills.hub = hub
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
        self._named: dict[str, _Named] = {}
        """What this door has at archives, by durable name."""
        self.door = entropy().randbytes(8)
        """Tells this door from others, of this node too."""
        self._meeting: asyncio.Task[None] | None = None
        """Listens to other doors, once there is anything to hear."""
        self._seen: dict[bytes, None] = {}
        self._nodes: dict[bytes, PeerId] = {}
        """By door: the node that it is on."""
        self._end_suspecting = node.attachment.runtime.failure.subscribe(self._suspect)
        self.wills = WillLog(node, self._start)

    async def close(self) -> None:
        self._end_suspecting()
        await self.wills.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

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
        if message.qos and self.keeps(topic):
            if id:
                self._start(self._publish_as(id, topic, data, done))
            else:
                receipt = await self._node.publish(topic, data, durable=True, wait="sent")
                self._start(self._when_safe(receipt, done))
            return
        receipt = await self._node.publish(topic, data)
        self._when_acked(message, receipt, done)

    async def _publish_as(
        self, id: bytes, topic: str, data: Any, done: Callable[[Reason], None]
    ) -> None:
        """Publish under an id, and tell when the message is safe."""
        run, number = id[:RUN_BYTES], int.from_bytes(id[RUN_BYTES:], "big")
        try:
            await self._node.publish_in_run(topic, run, number, [data])
        except CamcastError:
            self.hub.drop("not_safe")
            done(Reason.UNSPECIFIED)
        else:
            done(Reason.SUCCESS)

    def _when_acked(
        self, message: MqttMessage, receipt: Receipt, done: Callable[[Reason], None]
    ) -> None:
        """Tell when the members that the event was sent to have it, where anybody waits for that."""
        if not message.qos or self._node.config.links == "datagram":
            done(Reason.SUCCESS)
        else:
            receipt.when_settled(partial(done, Reason.SUCCESS))

    async def _when_safe(self, receipt: Receipt, done: Callable[[Reason], None]) -> None:
        from pubsub.archive.protocol.config import DEADLINE
        from pubsub.archive.publishing import wait_until_safe
        from pubsub.reliable.receipts import Budget

        try:
            await wait_until_safe(receipt, Budget(DEADLINE))
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
                    self._learn(event)
                watch.is_ready = True
                watch.tell(Reason.SUCCESS)
                async for some in events.batches():
                    for event in some:
                        self._deliver(event)
        except CamcastError:
            if self._watched.get(topic) is watch:
                del self._watched[topic]
            watch.tell(Reason.UNSPECIFIED)

    def _learn(self, event: Event) -> None:
        """Take the last event of a topic, from before the door listened: what is retained, clients are given
        when they subscribe."""
        message = _aged(message_in(event.topic, event.data))
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

    # -- what archives keep --

    def keeps(self, topic: str) -> bool:
        return bool(self._durable) and any(one.includes(Topic.of(topic)) for one in self._durable)

    async def meet(self) -> None:
        """Listen to other doors: which clients have moved, and who has members of shared subscriptions."""
        if self._meeting is None:
            self._meeting = self._start(self._begin_to_hear())
        await asyncio.shield(self._meeting)

    async def _begin_to_hear(self) -> None:
        self._start(self._hear(await self._node.subscribe(DOORS).__aenter__()))

    def tell_doors(self, groups: list[bytes], segments: list[bytes] | None) -> None:
        said: dict[str, Any] = {"door": self.door, "groups": groups}
        if segments is not None:
            said["wills"] = segments
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
                if "groups" in said:
                    self.hub.doors.heard(said.get("door"), said["groups"], said.get("wills"))
                    self._note_node(said.get("door"), event.publisher)
                name = said.get("name")
                named = self._named.get(name) if isinstance(name, str) else None
                if named is not None:
                    named.displaced()

    def _note_node(self, door: Any, node: PeerId) -> None:
        if type(door) is bytes:
            self._nodes.pop(door, None)
            self._nodes[door] = node
            if len(self._nodes) > MOST_DOORS:
                del self._nodes[next(iter(self._nodes))]

    def _suspect(self, node: Contact) -> None:
        """A node seems to have crashed, and the doors on it."""
        for door in [door for door, there in self._nodes.items() if there == node.id]:
            del self._nodes[door]
            self.hub.doors.gone(door)

    def _take(self, name: str, displaced: Callable[[], None], shared: bool = False) -> _Named:
        """Note that this door is to have a durable name, behind what it had under the name before."""
        named = _Named(displaced, self._named.get(name), shared)
        self._named[name] = named
        return named

    async def _have(self, name: str, named: _Named) -> None:
        """Wait until nobody of this door has the name, and tell the other doors to let it go."""
        if named.before is not None:
            await named.before.wait()
        if not named.shared:
            await self._node.publish(DOORS, {"door": self.door, "name": name})

    def _let_go(self, name: str, named: _Named) -> None:
        named.over.set()
        if self._named.get(name) is named:
            del self._named[name]

    def follow(
        self,
        name: str,
        topic: str,
        follower: Follower,
        afresh: bool,
        before: KeptSubscription | None = None,
        shared: bool = False,
    ) -> _Followed:
        followed = _Followed(follower, before)
        named = self._take(name, follower.displaced, shared)
        resume = followed.position or None
        events = self._node.subscribe(
            topic, durable=name, within=FIND_SECONDS, resume=resume, share=shared
        )
        followed.task = self._start(self._follow(events, followed, named, afresh))
        return followed

    async def _follow(
        self, events: DurableSubscription, followed: _Followed, named: _Named, afresh: bool
    ) -> None:
        """Bring what an archive keeps for a client, a few messages at a time, until the client has them."""
        follower = followed.follower
        is_ready = False
        try:
            await self._have(events.name, named)
            await events.__aenter__()
            if afresh:
                await events.seek("now")
            followed.events = events
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
            if is_ready:
                follower.displaced()  # the client begins anew, here or elsewhere
            else:
                follower.ready(Reason.UNSPECIFIED)
        finally:
            await asyncio.shield(self._start(self._end_following(events, followed, named)))

    async def _end_following(
        self, events: DurableSubscription, followed: _Followed, named: _Named
    ) -> None:
        followed.events = None
        with suppress(CamcastError):
            await (events.leave() if followed.forget else events.close())
        self._let_go(events.name, named)

    def forget(self, name: str, topic: str) -> None:
        self._start(self._forget(name, topic, self._take(name, lambda: None)))

    async def _forget(self, name: str, topic: str, named: _Named) -> None:
        events = self._node.subscribe(topic, durable=name, within=FIND_SECONDS)
        try:
            await self._have(name, named)
            await events.__aenter__()
            await events.leave()
        except CamcastError:
            self.hub.drop("archive_lost")
        finally:
            self._let_go(name, named)

    def keep_will(
        self, will: KeptWill | None, before: bytes, written: Callable[[bytes | None], None]
    ) -> None:
        self._start(self._keep_will(will, before, written))

    async def _keep_will(
        self, will: KeptWill | None, before: bytes, written: Callable[[bytes | None], None]
    ) -> None:
        id: bytes | None = None
        try:
            id = await self.wills.keep(will, before)
        except CamcastError:
            self.hub.drop("archive_lost")
        written(id)

    def will_over(self, id: bytes) -> None:
        self.wills.over(id)

    def heir(self, segment: bytes) -> None:
        self.wills.heir(segment)

    def open_session(self, client_id: str, opener: Opener) -> None:
        named = self._take(log_name(client_id), opener.displaced)
        self._start(self._keep_session(client_id, opener, named))

    async def _keep_session(self, client_id: str, opener: Opener, named: _Named) -> None:
        name = log_name(client_id)
        log: SessionLog | None = None
        try:
            try:
                await self._have(name, named)
                log = SessionLog(self._node, client_id)
                record, is_over = await log.open()
            except CamcastError:
                self.hub.drop("archive_lost")
                opener.failed()
                return
            opener.opened(log, record, is_over)
            await log.run()
        except Displaced:
            opener.displaced()
        except CamcastError:
            self.hub.drop("archive_lost")
            opener.displaced()
        finally:
            await asyncio.shield(self._start(self._end_session(log, name, named)))

    async def _end_session(self, log: SessionLog | None, name: str, named: _Named) -> None:
        if log is not None:
            await log.close()
        self._let_go(name, named)


class _Named:
    """A durable name that this door has, or waits for."""

    def __init__(self, displaced: Callable[[], None], before: _Named | None, shared: bool) -> None:
        self.displaced = displaced
        self.shared = shared
        """Other doors have it too."""
        self.over = asyncio.Event()
        """This door has the name no more."""
        self.before = None if before is None else before.over


class _Followed:
    """What an archive keeps for one subscription of a client: a `Following` of the hub."""

    task: asyncio.Task[Any]
    """Takes messages from the archive."""

    def __init__(self, follower: Follower, before: KeptSubscription | None) -> None:
        self.follower = follower
        self.events: DurableSubscription | None = None
        """Set while the archive brings messages."""
        self.left = MOST_HELD
        """How many more messages may be brought."""
        self.room = asyncio.Event()
        self.room.set()
        self.forget = False
        self._given: dict[bytes, bool] = {}
        """The keys of messages from the first one on that the client has not, in order: True for those that
        it has."""
        self._position = b"" if before is None else before.position

    @property
    def position(self) -> bytes:
        if self.events is not None and not self.events.is_ended:
            self._position = self.events.done_position(MOST_RUNS)
        return self._position

    @property
    def finished(self) -> tuple[bytes, ...]:
        return tuple(key for key, is_done in self._given.items() if is_done)

    def give(self, event: DurableEvent) -> None:
        key = event.id

        def done() -> None:
            event.ack()
            self._given[key] = True
            while self._given and self._given[first := next(iter(self._given))]:
                del self._given[first]
            self.left += 1
            self.room.set()

        self._given[key] = False
        self.left -= 1
        if not self.left:
            self.room.clear()
        message = _aged(message_in(event.topic, event.data))
        if message is None:
            done()
        else:
            self.follower.take(message, key, done)

    def end(self, forget: bool) -> None:
        self.forget = forget
        self.task.cancel()


def _aged(message: MqttMessage | None) -> MqttMessage | None:
    """A message that was kept for a while, by its door's clock and this one's; None once it has expired."""
    if message is None or not message.published_at:
        return message
    return message.aged(max(0.0, time.time() - message.published_at))


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
