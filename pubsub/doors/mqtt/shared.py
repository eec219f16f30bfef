"""Shared subscriptions (section 4.8.2): the groups that have members at this door.

Where no archive keeps the topic, the door whose turn it is gives a message to one of its members
(`pubsub.doors.mqtt.other_doors`). The other doors remember messages of QoS 1 and 2 for some seconds: when
that door is gone, another one gives its members what had come since `BEAT_SECONDS` before the door was last
heard.

Where an archive keeps the topic, clients' messages of QoS 1 and 2 come from the archive: the
group is one durable name that all doors with members share, so each message is one door's at a time. A door
that is killed has not acknowledged what its members have not, and the archive gives that to another one: it
may have come to a member of the killed door too.

The name is forgotten when the last member of all doors leaves. When the last door is killed the archive goes
on keeping messages for the group, until a member comes and goes, or the archive forgets names that nobody
uses. A door takes 64 messages at most for its members; those that are all away keep these waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from pubsub.doors.mqtt.filters import matches
from pubsub.doors.mqtt.message import MqttMessage, topic_of
from pubsub.doors.mqtt.other_doors import BEAT_SECONDS, SILENT_SECONDS, group_key
from pubsub.doors.mqtt.packets import Reason
from pubsub.doors.mqtt.session import Following, Granted, Session

if TYPE_CHECKING:
    from pubsub.doors.mqtt.hub import Hub

AGAIN_SECONDS = 1.0
"""How long a group waits before it looks for an archive again."""


MOST_ELSEWHERE = 10_000
MOST_BYTES = 16 * 1024 * 1024
"""Messages of a group that are remembered since they are another door's to give, and bytes of them."""


class _Elsewhere(NamedTuple):
    """A message that another door gives to one of its members."""

    at: float
    door: bytes
    message: MqttMessage
    key: bytes


class Group:
    """The members of one group at this door: a `Follower` of what an archive keeps for the group."""

    def __init__(self, hub: Hub, granted: Granted) -> None:
        assert granted.filter.group is not None
        self._hub = hub
        self._filter = granted.asked.filter
        self._levels = granted.filter.levels
        self.key = group_key(granted.filter.group, self._levels)
        self._topic = topic_of(granted.filter.base)
        self.is_kept = hub.network.keeps(self._topic)
        """An archive has the clients' messages of QoS 1 and 2."""
        self.members: dict[str, Session] = {}
        """The one whose turn it is first."""
        self._following: Following | None = None
        self._is_ready = False
        self._waiting: list[Callable[[Reason], None]] = []
        self._given: dict[int, tuple[Session, MqttMessage, Callable[[], None]]] = {}
        """Messages of the archive that a member has not acknowledged: whose, and what to call when it has."""
        self._numbers = count()
        self._elsewhere: deque[_Elsewhere] = deque()
        self._bytes = 0
        """Of the payloads of these."""

    # -- members --

    def join(self, session: Session) -> None:
        self.members[session.client_id] = session

    def leave(self, session: Session, forget: bool) -> None:
        """What the member was given and has not acknowledged goes to another one, of this door or of others.
        `forget`: the member does not go on elsewhere."""
        del self.members[session.client_id]
        if not self.members:
            if self._following is not None:
                self._following.end(forget and not self._hub.doors.is_elsewhere(self.key))
            return
        for number, (owner, message, done) in list(self._given.items()):
            if owner is session:
                del self._given[number]
                self._give(message, done)

    def _next_member(self) -> Session:
        """One that is connected if there is any; its next turn is the last."""
        members = self.members.values()
        connected = (one for one in members if one.client is not None and not one.client.is_full)
        session = next(connected, None) or next(iter(members))
        self.members[session.client_id] = self.members.pop(session.client_id)
        return session

    # -- messages --

    def deliver(self, message: MqttMessage, key: bytes) -> None:
        """A message that has come from the network; `key`: the id of its event."""
        if self.is_kept and message.qos and message.sender:
            return  # the archive brings it
        door = self._hub.doors.whose(self.key, key)
        if not door:
            session = self._next_member()
            self._hub.offer(session, message, [session.subscriptions[self._filter]])
        elif message.qos:
            self._remember(_Elsewhere(self._hub.clock.now(), door, message, key))

    def _remember(self, one: _Elsewhere) -> None:
        """Keep a message that is another door's to give, should that be gone."""
        elsewhere = self._elsewhere
        since = self._hub.clock.now() - SILENT_SECONDS - BEAT_SECONDS
        elsewhere.append(one)
        self._bytes += len(one.message.payload)
        while (
            elsewhere[0].at < since or len(elsewhere) > MOST_ELSEWHERE or self._bytes > MOST_BYTES
        ):
            if elsewhere[0].at >= since:
                self._hub.drop("shared_forgotten")
            self._bytes -= len(elsewhere.popleft().message.payload)
            if not elsewhere:
                return

    def door_gone(self, door: bytes, heard: float) -> None:
        """Give on what came shortly before the door was last heard, or since: its members may have some."""
        elsewhere, self._elsewhere, self._bytes = self._elsewhere, deque(), 0
        for one in elsewhere:
            if one.door != door:
                self._remember(one)
            elif one.at > heard - BEAT_SECONDS and self.members:
                self.deliver(one.message, one.key)

    def _give(self, message: MqttMessage, done: Callable[[], None]) -> None:
        session = self._next_member()
        granted = session.subscriptions[self._filter]
        if not granted.asked.qos:
            self._hub.offer(session, message, [granted])
            done()
            return
        number = next(self._numbers)
        self._given[number] = (session, message, done)
        self._hub.offer(session, message, [granted], done=partial(self._has, number))

    def _has(self, number: int) -> None:
        """A member has the message, unless it was taken from that member before."""
        given = self._given.pop(number, None)
        if given is not None:
            given[2]()

    # -- what an archive keeps --

    def when_ready(self, then: Callable[[Reason], None]) -> None:
        """Tell when the archive keeps messages for the group, or that none does."""
        if self._is_ready:
            then(Reason.SUCCESS)
            return
        self._waiting.append(then)
        if self._following is None:
            self._follow()

    def _follow(self) -> None:
        if self.members:
            name = f"mqtt-share-{self.key.hex()}"
            self._following = self._hub.network.follow(name, self._topic, self, False, shared=True)

    def ready(self, reason: Reason) -> None:
        self._is_ready = reason == Reason.SUCCESS
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(reason)
        if not self._is_ready:
            self._look_again()  # for members that were there before

    def take(self, message: MqttMessage, key: bytes, done: Callable[[], None]) -> None:
        if not self.members:
            return  # it stays the archive's
        if not message.qos or not message.sender:
            done()  # what Python programs publish has come already
        elif not matches(self._levels, message.topic):
            done()
        else:
            self._give(message, done)

    def displaced(self) -> None:
        """The archive is gone, or has ended the subscription: look for one again."""
        self._is_ready, self._given = False, {}
        self._look_again()

    def _look_again(self) -> None:
        if self.members:
            self._hub.clock.call_later(AGAIN_SECONDS, self._follow)
