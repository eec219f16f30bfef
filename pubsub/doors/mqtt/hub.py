"""The MQTT server as a protocol core: clients, their sessions, wills and retained messages; no I/O.

The hub is told of packets and of messages that come from the network, and asks two things of the network: to
publish a message, and to bring the messages of a topic. PUBACK and PUBREC are sent when the network has what
was published; SUBACK when the network brings what was subscribed to: a client misses nothing that is
published after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from overlay.context import Timer
from overlay.errors import UsageError
from overlay.metrics import Metrics
from pubsub.doors.mqtt.connection import Connection, Link
from pubsub.doors.mqtt.filters import FilterTree, TopicFilter, matches
from pubsub.doors.mqtt.message import MqttMessage, sender_of, topic_of
from pubsub.doors.mqtt.packets import Asked, Connect, MqttError, Reason, Will
from pubsub.doors.mqtt.session import Following, Granted, Outgoing, Session

NEVER = 0xFFFFFFFF
"""The session expiry interval of a session that does not expire (section 3.1.2.11.2)."""


@dataclass(frozen=True)
class MqttConfig:
    """What the door allows each client and all of them."""

    most_clients: int = 20_000
    """Connections at one time; further ones are refused as "server busy"."""
    most_sessions: int = 50_000
    """Sessions, connected or not. When there are more, the one that has been away longest is dropped."""
    most_waiting: int = 1_000
    """Messages of QoS 1 and 2 that may wait for one client; further ones are dropped and counted."""
    most_subscriptions: int = 1_000
    """Filters of one client; further ones are refused as "quota exceeded"."""
    longest_expiry: float = 7 * 24 * 3600.0
    """Seconds that a session lasts at most without a connection, whatever the client asks for."""
    receive_maximum: int = 256
    """Messages of QoS 1 and 2 that one client may have under way to the door."""
    topic_aliases: int = 64
    """Topic aliases that one client may use."""
    largest_packet: int = 1024 * 1024
    """Bytes of a packet from a client."""
    most_retained: int = 10_000
    """Retained messages; when there are more, the one that was set longest ago is dropped."""
    longest_keep_alive: int = 65_535
    """Seconds; a client of MQTT 5.0 that asks for more, or for none, is told this."""
    most_partial: int = 64 * 1024 * 1024
    """Bytes of packets that have not come whole, of all clients together. With more, the client whose packet
    has taken longest is disconnected."""
    packet_seconds: float = 120.0
    """How long one packet may take to come whole."""
    connect_seconds: float = 10.0
    """How long a connection may take to send its first packet."""

    def __post_init__(self) -> None:
        for name in ("receive_maximum", "longest_keep_alive"):
            if not 1 <= getattr(self, name) <= 65_535:
                raise UsageError(f"{name} is 1 to 65,535, not {getattr(self, name)}")
        if not 0 <= self.topic_aliases <= 65_535:
            raise UsageError(f"topic_aliases is 0 to 65,535, not {self.topic_aliases}")
        least_one = ("most_clients", "most_sessions", "most_waiting", "most_subscriptions")
        for name in (
            *least_one,
            "largest_packet",
            "most_partial",
            "packet_seconds",
            "connect_seconds",
        ):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is more than 0, not {getattr(self, name)}")


class Follower(Protocol):
    """What takes the messages that an archive keeps for a subscription."""

    def ready(self, reason: Reason) -> None:
        """The archive keeps what is published from now on; or why there is none."""
        ...

    def take(self, message: MqttMessage, key: bytes, done: Callable[[], None]) -> None:
        """A message, the id of its event, and what is to be called when the client has it."""
        ...

    def displaced(self) -> None:
        """The client has gone to another door."""
        ...


class Network(Protocol):
    """What the hub asks of the network."""

    def publish(self, message: MqttMessage, done: Callable[[Reason], None]) -> None:
        """Publish; `done` is called once, with success when the network has the message."""
        ...

    def watch(self, topic: str, ready: Callable[[Reason], None]) -> None:
        """Bring all messages of a camcast topic and its subtopics, from when `ready` is called on."""
        ...

    def keeps(self, topic: str) -> bool:
        """Whether an archive is to have the messages of the topic."""
        ...

    def follow(self, name: str, topic: str, follower: Follower, afresh: bool) -> Following:
        """Bring what the archive keeps for this name, from where it was, or with `afresh` from now on."""
        ...

    def unwatch(self, topic: str) -> None:
        """One `watch` of the topic less."""
        ...


class Access(Protocol):
    """Who may do what; a method returns whether it is allowed."""

    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool: ...

    def publish(self, client_id: str, topic: str) -> bool: ...

    def subscribe(self, client_id: str, filter: str) -> bool: ...


class Open:
    """Everybody may do everything."""

    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool:
        return True

    def publish(self, client_id: str, topic: str) -> bool:
        return True

    def subscribe(self, client_id: str, filter: str) -> bool:
        return True


class Clock(Protocol):
    """The part of `overlay.context.Context` that the hub uses."""

    def now(self) -> float: ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer: ...


def name_at_archive(client_id: str, filter: str) -> str:
    """The durable name of a client's subscription, the same at every door."""
    packed = b"%d:%s%s" % (len(client_id.encode()), client_id.encode(), filter.encode())
    return "mqtt-" + hashlib.blake2s(packed, digest_size=16).hexdigest()


class Partials:
    """Packets that have not come whole: bounded in bytes and in time, however many clients dawdle."""

    def __init__(self, clock: Clock, config: MqttConfig) -> None:
        self._clock = clock
        self._config = config
        self._began: dict[Connection, tuple[float, int]] = {}
        """When each began, and its bytes; the one that began first is the first."""
        self._timer: Timer | None = None
        self.bytes = 0

    def note(self, connection: Connection, waiting: int) -> None:
        """This many bytes of a connection wait for the rest of their packet."""
        known = self._began.get(connection)
        self.bytes += waiting - (0 if known is None else known[1])
        if not waiting:
            self._began.pop(connection, None)
            return
        self._began[connection] = (self._clock.now() if known is None else known[0], waiting)
        while self.bytes > self._config.most_partial:
            self._disconnect(Reason.QUOTA_EXCEEDED)
        if self._timer is None:
            self._timer = self._clock.call_later(self._config.packet_seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        ended = self._clock.now() - self._config.packet_seconds
        while self._began and next(iter(self._began.values()))[0] <= ended:
            self._disconnect(Reason.KEEP_ALIVE_TIMEOUT)
        for began, _ in self._began.values():
            # A delay that rounding makes next to nothing would be asked for again and again.
            least = self._config.packet_seconds / 100
            self._timer = self._clock.call_later(max(began - ended, least), self._look)
            return

    def _disconnect(self, reason: Reason) -> None:
        next(iter(self._began)).fail(MqttError(reason, "a packet takes too long to come whole"))


class _Kept:
    """The follower of one subscription."""

    def __init__(
        self, hub: Hub, session: Session, text: str, ready: Callable[[Reason], None]
    ) -> None:
        self._hub = hub
        self._session = session
        self._text = text
        self.ready = ready

    def take(self, message: MqttMessage, key: bytes, done: Callable[[], None]) -> None:
        self._hub.deliver_kept(self._session, self._text, message, key, done)

    def displaced(self) -> None:
        self._hub.moved(self._session)


class Hub:
    """All clients of one door."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        config: MqttConfig,
        access: Access,
        metrics: Metrics,
        name: str,
    ) -> None:
        """`name`: the beginning of the client ids that the door gives to clients that bring none."""
        self.clock = clock
        self.network = network
        self.config = config
        self.access = access
        self.sessions: dict[str, Session] = {}
        self.connections: dict[str, Connection] = {}
        self._name = name
        self._named = 0
        self._tree: FilterTree[tuple[Session, Granted]] = FilterTree()
        self._shared: dict[tuple[str, tuple[str, ...]], dict[str, Session]] = {}
        self._retained: dict[str, tuple[MqttMessage, float]] = {}
        self._endings: dict[str, Timer] = {}
        self._wills: dict[str, tuple[Will, Timer | None]] = {}
        self.partials = Partials(clock, config)
        """Packets of all connections that have not come whole."""
        self._dropped = metrics.family(
            "mqtt_messages_dropped", "reason", "Messages that an MQTT client was not given"
        )
        metrics.gauge("mqtt_clients", "Connected MQTT clients", lambda: len(self.connections))
        metrics.gauge("mqtt_sessions", "Sessions of MQTT clients", lambda: len(self.sessions))

    def accept(self, link: Link) -> Connection:
        """A connection has been made; its packets go to the object that is returned."""
        return Connection(self, link)

    def drop(self, reason: str) -> None:
        self._dropped.add(reason)

    # -- clients --

    def enter(self, connection: Connection, connect: Connect) -> tuple[Session, bool, str]:
        """The client's session, whether it was there before, and the id that the door gave it, if any.

        A connection that the client still has is ended (section 3.1.4)."""
        given = ""
        client_id = connect.client_id
        if not client_id:
            self._named += 1
            client_id = given = f"{self._name}-{self._named}"
        if not self.access.connect(client_id, connect.username, connect.password):
            raise MqttError(Reason.NOT_AUTHORIZED, "the user name or the password is not right")
        before = self.connections.pop(client_id, None)
        if before is not None:
            before.taken_over()
        elif len(self.connections) >= self.config.most_clients:
            raise MqttError(Reason.SERVER_BUSY, "the door has no room for another client")
        if timer := self._endings.pop(client_id, None):
            timer.cancel()
        session = self.sessions.get(client_id)
        if session is not None and connect.clean_start:
            self._end(session)
            session = None
        self._cancel_will(client_id)
        present = session is not None
        if session is None:
            self._make_room()
            session = self.sessions[client_id] = Session(
                client_id, self.config.most_waiting, self.clock.now, self.drop
            )
            session.is_fresh = connect.clean_start
        self.connections[client_id] = connection
        return session, present, given

    def leave(self, connection: Connection, session: Session, will: Will | None) -> None:
        """The connection has ended; `will` is to be published unless the client comes back in time."""
        client_id = session.client_id
        if session.client is connection:
            session.client = None
        if self.connections.get(client_id) is connection:
            del self.connections[client_id]
        if will is not None:
            self._schedule_will(client_id, will, session.expiry)
        if session.expiry <= 0:
            self._end(session)
        else:
            lasts = min(session.expiry, self.config.longest_expiry)
            self._endings[client_id] = self.clock.call_later(lasts, lambda: self._end(session))

    def _end(self, session: Session, forget: bool = True) -> None:
        """Forget a session, with what waits in it, and at the archive too with `forget`."""
        if self.sessions.get(session.client_id) is not session:
            return
        del self.sessions[session.client_id]
        if timer := self._endings.pop(session.client_id, None):
            timer.cancel()
        for text in list(session.subscriptions):
            self.unsubscribe(session, text, forget)
        will = self._wills.get(session.client_id)
        if will is not None and will[1] is not None:  # it is not delayed beyond the session
            will[1].cancel()
            self._publish_will(session.client_id)

    def _make_room(self) -> None:
        """Forget the session that has been away longest when there are too many."""
        if len(self.sessions) >= self.config.most_sessions:
            for client_id in self._endings:
                self.drop("session_forgotten")
                self._end(self.sessions[client_id])
                return
            raise MqttError(Reason.SERVER_BUSY, "the door has no room for another session")

    # -- wills --

    def _schedule_will(self, client_id: str, will: Will, expiry: float) -> None:
        delay = min(will.properties.get("will_delay_interval", 0), expiry)
        self._wills[client_id] = (will, None)
        if delay <= 0:
            self._publish_will(client_id)
            return
        timer = self.clock.call_later(delay, lambda: self._publish_will(client_id))
        self._wills[client_id] = (will, timer)

    def _cancel_will(self, client_id: str) -> None:
        will = self._wills.pop(client_id, None)
        if will is not None and will[1] is not None:
            will[1].cancel()

    def _publish_will(self, client_id: str) -> None:
        found = self._wills.pop(client_id, None)
        if found is None:
            return
        will = found[0]
        properties = {
            name: value for name, value in will.properties.items() if name != "will_delay_interval"
        }
        sender = sender_of(client_id)
        self.publish(
            MqttMessage(will.topic, will.payload, will.qos, will.retain, sender, properties),
            lambda reason: None,
        )

    # -- subscriptions --

    def subscribe(
        self,
        session: Session,
        asked: Asked,
        identifier: int | None,
        done: Callable[[Reason], None],
    ) -> None:
        """Add or replace a subscription; `done` is told the QoS that is granted, or why there is none."""
        try:
            parsed = TopicFilter.parse(asked.filter)
            topic = topic_of(parsed.base)
            if parsed.group is not None and asked.no_local:
                raise MqttError(Reason.PROTOCOL_ERROR, "No Local does not go with $share")
        except MqttError as error:
            if error.reason == Reason.PROTOCOL_ERROR:
                raise
            done(Reason.TOPIC_FILTER_INVALID)
            return
        kept = asked.qos > 0 and session.expiry > 0 and parsed.group is None
        kept = kept and self.network.keeps(topic)
        before = session.subscriptions.get(asked.filter)
        if before is not None and kept != (before.following is not None):
            self.unsubscribe(session, asked.filter)
        is_new = asked.filter not in session.subscriptions
        if is_new and len(session.subscriptions) >= self.config.most_subscriptions:
            done(Reason.QUOTA_EXCEEDED)
            return
        if not self.access.subscribe(session.client_id, asked.filter):
            done(Reason.NOT_AUTHORIZED)
            return
        following = None if is_new or before is None else before.following
        granted = Granted(parsed, asked, identifier, following)
        session.subscriptions[asked.filter] = granted
        self._put(session, granted)

        def ready(reason: Reason) -> None:
            if reason != Reason.SUCCESS:
                self.unsubscribe(session, asked.filter)
                done(reason)
                return
            done(Reason(asked.qos))
            handling = asked.retain_handling
            if parsed.group is None and (handling == 0 or (is_new and handling == 1)):
                self._send_retained(session, granted)

        def follow(reason: Reason) -> None:
            if reason != Reason.SUCCESS or session.subscriptions.get(asked.filter) is not granted:
                ready(reason)
                return
            follower = _Kept(self, session, asked.filter, ready)
            name = name_at_archive(session.client_id, asked.filter)
            granted.following = self.network.follow(name, topic, follower, session.is_fresh)

        if is_new:
            self.network.watch(topic, follow if kept else ready)
        else:
            ready(Reason.SUCCESS)

    def _put(self, session: Session, granted: Granted) -> None:
        levels, group = granted.filter.levels, granted.filter.group
        if group is None:
            self._tree.put(levels, session.client_id, (session, granted))
            return
        members = self._shared.setdefault((group, levels), {})
        members[session.client_id] = session
        self._tree.put(levels, (group, levels), (session, granted))

    def unsubscribe(self, session: Session, text: str, forget: bool = True) -> bool:
        """Whether there was such a subscription. `forget`: the archive keeps nothing for it any more."""
        granted = session.subscriptions.pop(text, None)
        if granted is None:
            return False
        levels, group = granted.filter.levels, granted.filter.group
        if group is None:
            self._tree.remove(levels, session.client_id)
        else:
            members = self._shared[group, levels]
            del members[session.client_id]
            if members:
                other = next(iter(members.values()))
                self._tree.put(levels, (group, levels), (other, other.subscriptions[text]))
            else:
                del self._shared[group, levels]
                self._tree.remove(levels, (group, levels))
        self.network.unwatch(topic_of(granted.filter.base))
        if granted.following is not None:
            granted.following.end(forget)
        return True

    # -- messages --

    def publish(self, message: MqttMessage, done: Callable[[Reason], None]) -> None:
        """Publish what a client sent; a retained message is kept here, whether or not any client is
        subscribed."""
        if message.retain:
            self.retain(message)
        self.network.publish(message, done)

    def deliver(self, message: MqttMessage, key: bytes = b"") -> None:
        """Give a message of the network to the clients that are subscribed to it, to each of them once;
        `key`: the id of its event."""
        if message.retain:
            self.retain(message)
        found: dict[str, tuple[Session, list[Granted]]] = {}
        for session, granted in list(self._tree.matching(message.topic)):
            if granted.filter.group is not None:
                self._deliver_to_group(message, granted)
                continue
            if granted.asked.no_local and message.sender == sender_of(session.client_id):
                continue
            found.setdefault(session.client_id, (session, []))[1].append(granted)
        for session, grants in found.values():
            kept = any(one.following is not None for one in grants)
            self._offer(session, message, grants, key=key if kept else b"")

    def deliver_kept(
        self,
        session: Session,
        text: str,
        message: MqttMessage,
        key: bytes,
        done: Callable[[], None],
    ) -> None:
        """Give a client a message that the archive kept for its subscription `text`."""
        granted = session.subscriptions.get(text)
        if granted is None:
            return
        is_own = granted.asked.no_local and message.sender == sender_of(session.client_id)
        if is_own or not matches(granted.filter.levels, message.topic) or not message.qos:
            done()
        else:
            self._offer(session, message, [granted], key=key, done=done)

    def moved(self, session: Session) -> None:
        """The client has connected to another door, which has its subscriptions now."""
        if self.sessions.get(session.client_id) is not session:
            return
        connection = self.connections.pop(session.client_id, None)
        self._end(session, forget=False)
        if connection is not None:
            connection.taken_over()

    def _deliver_to_group(self, message: MqttMessage, granted: Granted) -> None:
        """To the member whose turn it is, one that is connected if there is any."""
        assert granted.filter.group is not None
        members = self._shared[granted.filter.group, granted.filter.levels]
        connected = [
            one for one in members.values() if one.client is not None and not one.client.is_full
        ]
        session = (connected or list(members.values()))[0]
        members[session.client_id] = members.pop(session.client_id)  # its next turn is the last
        self._offer(session, message, [session.subscriptions[granted.asked.filter]])

    def _offer(
        self,
        session: Session,
        message: MqttMessage,
        grants: list[Granted],
        retained: bool = False,
        key: bytes = b"",
        done: Callable[[], None] | None = None,
    ) -> None:
        qos = min(message.qos, max(granted.asked.qos for granted in grants))
        as_published = message.retain and any(one.asked.retain_as_published for one in grants)
        identifiers = tuple(one.identifier for one in grants if one.identifier is not None)
        now = self.clock.now()
        retain = retained or as_published
        session.offer(Outgoing(message, qos, retain, identifiers, now, key=key, done=done))

    def retain(self, message: MqttMessage) -> None:
        """Keep the message as its topic's last one; an empty one clears it (section 3.3.1.3)."""
        self._retained.pop(message.topic, None)
        if message.payload:
            self._retained[message.topic] = (message, self.clock.now())
            if len(self._retained) > self.config.most_retained:
                del self._retained[next(iter(self._retained))]
                self.drop("retained_forgotten")

    def _send_retained(self, session: Session, granted: Granted) -> None:
        now = self.clock.now()
        for topic, (message, since) in list(self._retained.items()):
            if matches(granted.filter.levels, topic):
                aged = message.aged(now - since)
                if aged is None:
                    del self._retained[topic]
                else:
                    self._offer(session, aged, [granted], retained=True)
