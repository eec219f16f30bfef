"""The MQTT server as a protocol core: clients, their sessions, wills and retained messages; no I/O.

The hub is told of packets and of messages that come from the network, and asks two things of the network: to
publish a message, and to bring the messages of a topic. PUBACK and PUBREC are sent when the network has what
was published; SUBACK when the network brings what was subscribed to: a client misses nothing that is
published after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.bounded import Budget
from overlay.context import Timer
from overlay.metrics import Metrics
from pubsub.doors.mqtt.authentication import Authenticator
from pubsub.doors.mqtt.connection import Connection, Link
from pubsub.doors.mqtt.deadlines import Deadlines, Partials
from pubsub.doors.mqtt.entering import Entering
from pubsub.doors.mqtt.filters import FilterTree, TopicFilter, matches
from pubsub.doors.mqtt.kept import KeptSubscription
from pubsub.doors.mqtt.message import MqttMessage, sender_of, topic_of
from pubsub.doors.mqtt.network import Access, MqttConfig, Network, Open
from pubsub.doors.mqtt.other_doors import Clock, OtherDoors
from pubsub.doors.mqtt.packets import Asked, Connect, MqttError, Reason, Will
from pubsub.doors.mqtt.session import Common, Forms, Granted, Outgoing, Session
from pubsub.doors.mqtt.shared import Group
from pubsub.doors.mqtt.subscribing import Subscribing
from pubsub.doors.mqtt.wills import Wills, kept_will
from pubsub.topic import is_reserved

_Matching = tuple[list[tuple[Granted, ...]], list[Granted]]
"""The subscriptions that match a topic, those of one client together; and those that groups share."""

MOST_MATCHED = 200_000
"""Clients of which it is remembered that they are subscribed to a topic, of all topics together, about 60
bytes each; a topic counts as `_TOPIC` clients."""

_TOPIC = 50


class Hub:
    """All clients of one door."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        config: MqttConfig,
        access: Access | None,
        metrics: Metrics,
        name: str,
        authenticator: Authenticator | None = None,
    ) -> None:
        """`name`: the beginning of the client ids that the door gives to clients that bring none."""
        self.clock = clock
        self.network = network
        self.config = config
        self.access = access or Open(authenticated=authenticator is not None)
        self.authenticator = authenticator
        self.not_allowed = Reason.NOT_AUTHORIZED if config.says_why else Reason.UNSPECIFIED
        self._common = Common(
            config.most_waiting, Budget(config.waiting_bytes), clock.now, self.drop
        )
        self.sessions: dict[str, Session] = {}
        self.connections: dict[str, Connection] = {}
        self.entering = Entering(self, name)
        self._tree: FilterTree[Granted] = FilterTree()
        self._matched: dict[str, _Matching] = {}
        """By topic: what was found in the tree, since it was last changed."""
        self._remembered = 0
        """What is there, by the measure of `MOST_MATCHED`."""
        self.doors = OtherDoors(
            clock,
            network.door,
            network.tell_doors,
            keeps_wills=network.keeps_sessions,
            on_gone=self._door_gone,
            on_inherit=network.inherit,
        )
        self._shared: dict[tuple[str, tuple[str, ...]], Group] = {}
        self._retained: dict[str, tuple[MqttMessage, float]] = {}
        self._retained_names: FilterTree[str] = FilterTree()
        """The topics of these, to find those that a filter matches."""
        self._retained_bytes = 0
        self.endings: dict[str, Timer] = {}
        """By client id: sessions without a connection, until they end."""
        self.wills = Wills(
            clock, self.publish, self._will_due, network.will_over, network.look_for_end
        )
        self.deadlines = Deadlines(clock)
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

    def may_publish(self, client_id: str, name: str) -> bool:
        """Whether the client may publish there; `MqttError` when no topic has such a name."""
        return not is_reserved(topic_of(name)) and self.access.publish(client_id, name)

    def new_session(self, client_id: str, connect: Connect) -> Session:
        self._make_room()
        session = self.sessions[client_id] = Session(client_id, self._common)
        session.is_fresh = connect.clean_start
        return session

    def archive_lost(self, session: Session) -> None:
        """A record of the session cannot be written: the client has to begin from the last one."""
        self.drop("archive_lost")
        if self.sessions.get(session.client_id) is not session:
            return
        connection = self.connections.pop(session.client_id, None)
        self.end(session, forget=False)
        if connection is not None:
            what = "the archive of the sessions does not answer"
            connection.fail(MqttError(Reason.SERVER_UNAVAILABLE, what))

    def leave(self, connection: Connection, session: Session, will: Will | None) -> None:
        """The connection has ended; `will` is to be published unless the client comes back in time."""
        client_id = session.client_id
        if session.client is connection:
            session.client = None
        if self.connections.get(client_id) is connection:
            del self.connections[client_id]
        id, delay = session.will, 0.0
        if will is not None:
            kept = kept_will(client_id, will, session.expiry)
            delay = kept.delay
            self.wills.schedule(client_id, kept, id)
        elif id:
            self.network.will_over(id)
        if delay <= 0:
            session.will = b""  # the client's coming back does not end it
        if session.expiry <= 0:
            self.end(session)
        elif self.sessions.get(client_id) is session:
            if session.keeper is not None:
                session.keeper.changed()
            lasts = min(session.expiry, self.config.longest_expiry)
            self.endings[client_id] = self.clock.call_later(lasts, lambda: self.end(session))

    def end(self, session: Session, forget: bool = True) -> None:
        """Forget a session, with what waits in it, and at the archive too with `forget`."""
        if self.sessions.get(session.client_id) is not session:
            return
        del self.sessions[session.client_id]
        if timer := self.endings.pop(session.client_id, None):
            timer.cancel()
        if session.keeper is not None:
            session.keeper.end(forget)
        for text in list(session.subscriptions):
            self.unsubscribe(session, text, forget)
        session.let_go()
        if forget:
            self.wills.publish(session.client_id)  # it is not delayed beyond the session

    def _will_due(self, client_id: str) -> None:
        """The client has not come back within the delay of its will."""
        session = self.sessions.get(client_id)
        if session is not None and session.will:
            session.will = b""
            if session.keeper is not None:
                session.keeper.changed()
        self.wills.publish(client_id)

    def _make_room(self) -> None:
        """Forget the session that has been away longest when there are too many."""
        if len(self.sessions) >= self.config.most_sessions:
            for client_id in self.endings:
                self.drop("session_forgotten")
                self.end(self.sessions[client_id])
                return
            raise MqttError(Reason.SERVER_BUSY, "the door has no room for another session")

    def _door_gone(self, door: bytes, heard: float) -> None:
        for group in list(self._shared.values()):
            group.door_gone(door, heard)

    # -- subscriptions --

    def subscribe(
        self,
        session: Session,
        asked: Asked,
        identifier: int | None,
        done: Callable[[Reason], None],
        before_move: KeptSubscription | None = None,
    ) -> None:
        """Add or replace a subscription; `done` is told the QoS that is granted, or why there is none.
        `before_move`: another door has had it."""
        try:
            parsed = TopicFilter.parse(asked.filter)
            topic = topic_of(parsed.base)
        except MqttError as error:
            if error.reason == Reason.PROTOCOL_ERROR:
                raise
            done(Reason.TOPIC_FILTER_INVALID)
            return
        if parsed.group is not None and asked.no_local:
            raise MqttError(Reason.PROTOCOL_ERROR, "No Local does not go with $share")
        lasts = session.expiry > 0 or (before_move is not None and before_move.position != b"")
        kept = asked.qos > 0 and lasts and parsed.group is None
        kept = kept and self.network.keeps(topic)
        before = session.subscriptions.get(asked.filter)
        if before is not None and kept != (before.following is not None):
            self.unsubscribe(session, asked.filter)
        is_new = asked.filter not in session.subscriptions
        if is_new and len(session.subscriptions) >= self.config.most_subscriptions:
            done(Reason.QUOTA_EXCEEDED)
        elif is_reserved(topic) or not self.access.subscribe(
            session.client_id, "/".join(parsed.levels)
        ):
            done(self.not_allowed)
        else:
            following = None if is_new or before is None else before.following
            granted = Granted(session, parsed, asked, identifier, following, before_move)
            session.subscriptions[asked.filter] = granted
            self._put(session, granted)
            Subscribing(self, session, granted, topic, is_new, done).begin(kept)

    def _put(self, session: Session, granted: Granted) -> None:
        self._forget_matched()
        levels, group = granted.filter.levels, granted.filter.group
        if group is None:
            self._tree.put(levels, session.client_id, granted)
            return
        shared = self._shared.get((group, levels))
        if shared is None:
            shared = self._shared[group, levels] = Group(self, granted)
            self._tree.put(levels, (group, levels), granted)
        if session.client_id not in shared.members:
            self.doors.joined(shared.key)
        shared.join(session)

    def shared(self, granted: Granted) -> Group:
        """The group of a shared subscription."""
        assert granted.filter.group is not None
        return self._shared[granted.filter.group, granted.filter.levels]

    def unsubscribe(self, session: Session, text: str, forget: bool = True) -> bool:
        """Whether there was such a subscription. `forget`: the archive keeps nothing for it any more."""
        granted = session.subscriptions.pop(text, None)
        if granted is None:
            return False
        self._forget_matched()
        levels, group = granted.filter.levels, granted.filter.group
        if group is None:
            self._tree.remove(levels, session.client_id)
        else:
            shared = self._shared[group, levels]
            self.doors.left(shared.key)
            shared.leave(session, forget)
            if not shared.members:
                del self._shared[group, levels]
                self._tree.remove(levels, (group, levels))
        self.network.unwatch(topic_of(granted.filter.base))
        if granted.following is not None:
            granted.following.end(forget)
        return True

    # -- messages --

    def publish(
        self, message: MqttMessage, done: Callable[[Reason], None], id: bytes = b""
    ) -> None:
        """Publish what a client sent; a retained message is kept here, whether or not any client is
        subscribed."""
        if message.retain:
            self.retain(message)
        self.network.publish(message, done, id)

    def deliver(self, message: MqttMessage, key: bytes = b"") -> None:
        """Give a message of the network to the clients that are subscribed to it, to each of them once;
        `key`: the id of its event."""
        if message.retain:
            self.retain(message)
        targets, groups = self._matching(message.topic)
        for granted in groups:
            self.shared(granted).deliver(message, key)
        forms: Forms = {}
        for grants in targets:
            kept = grants[0].following is not None or (
                len(grants) > 1 and any(one.following is not None for one in grants)
            )
            if kept and message.qos and message.sender:
                continue  # a client's message: the archive brings it, and in order
            self.offer(grants[0].session, message, grants, key=key if kept else b"", forms=forms)

    def _matching(self, topic: str) -> _Matching:
        """Whose subscriptions match a topic, and the groups that share one."""
        matching = self._matched.get(topic)
        if matching is None:
            found: dict[str, list[Granted]] = {}
            groups: list[Granted] = []
            for granted in self._tree.matching(topic):
                if granted.filter.group is not None:
                    groups.append(granted)
                else:
                    found.setdefault(granted.session.client_id, []).append(granted)
            if self._remembered > MOST_MATCHED:
                self._forget_matched()
            self._remembered += _TOPIC + len(found)
            matching = self._matched[topic] = ([*map(tuple, found.values())], groups)
        return matching

    def _forget_matched(self) -> None:
        self._matched.clear()
        self._remembered = 0

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
            self.offer(session, message, [granted], key=key, done=done)

    def moved(self, session: Session, afresh: bool = False) -> None:
        """The client has connected to another door, which has its subscriptions now; `afresh`: with a clean
        start, so that the session has ended.

        A will that waits is ended by the other door, when the client is let in there."""
        if self.sessions.get(session.client_id) is not session:
            return
        connection = self.connections.pop(session.client_id, None)
        self.end(session, forget=False)
        if connection is not None:
            connection.taken_over()
        if afresh:
            self.wills.publish(session.client_id)
        elif not self.network.keeps_sessions:
            self.wills.cancel(session.client_id)  # it has subscribed there
        elif self.wills.is_standing_in(session.client_id):
            self.network.will_over(self.wills.cancel(session.client_id))

    def offer(
        self,
        session: Session,
        message: MqttMessage,
        grants: Sequence[Granted],
        retained: bool = False,
        key: bytes = b"",
        done: Callable[[], None] | None = None,
        forms: Forms | None = None,
    ) -> None:
        """Give a session a message that these subscriptions match; `forms`: how it was encoded before."""
        if message.sender and message.sender == sender_of(session.client_id):
            grants = [one for one in grants if not one.asked.no_local]
        if len(grants) == 1:
            one = grants[0]
            granted_qos, as_published = one.asked.qos, one.asked.retain_as_published
            identifiers: tuple[int, ...] = () if one.identifier is None else (one.identifier,)
        elif grants:
            granted_qos = max(one.asked.qos for one in grants)
            as_published = any(one.asked.retain_as_published for one in grants)
            identifiers = tuple(one.identifier for one in grants if one.identifier is not None)
        else:
            return
        qos = min(message.qos, granted_qos)
        retain = retained or (message.retain and as_published)
        now, forms = self.clock.now(), {} if forms is None else forms
        session.offer(
            Outgoing(message, qos, retain, identifiers, now, key=key, done=done, forms=forms)
        )

    def retain(self, message: MqttMessage) -> None:
        """Keep the message as its topic's last one; an empty one clears it (section 3.3.1.3)."""
        self._forget_retained(message.topic)
        if message.payload:
            self._retained[message.topic] = (message, self.clock.now())
            self._retained_names.put(tuple(message.topic.split("/")), None, message.topic)
            self._retained_bytes += len(message.payload)
            most, size = self.config.most_retained, self.config.retained_bytes
            while len(self._retained) > most or self._retained_bytes > size:
                self._forget_retained(next(iter(self._retained)))
                self.drop("retained_forgotten")

    def _forget_retained(self, topic: str) -> None:
        known = self._retained.pop(topic, None)
        if known is not None:
            self._retained_bytes -= len(known[0].payload)
            self._retained_names.remove(tuple(topic.split("/")), None)

    def send_retained(self, session: Session, granted: Granted) -> None:
        now = self.clock.now()
        for topic in list(self._retained_names.matched_by(granted.filter.levels)):
            message, since = self._retained[topic]
            aged = message.aged(now - since)
            if aged is None:
                self._forget_retained(topic)
            else:
                self.offer(session, aged, [granted], retained=True)
