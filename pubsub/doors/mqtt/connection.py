"""One connection of a client: the order of its packets, its keep-alive, aliases and flow control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pubsub.doors.mqtt.authentication import Authentication
from pubsub.doors.mqtt.message import MqttMessage, sender_of, topic_of
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V5,
    Ack,
    Auth,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    MqttError,
    Packet,
    Ping,
    Publish,
    Reason,
    Reasons,
    Subscribe,
    Unsubscribe,
    Will,
    plain_ack,
    violation,
    write_packet,
)
from pubsub.doors.mqtt.session import LAST_PACKET_ID, NONE, Session

if TYPE_CHECKING:
    from pubsub.doors.mqtt.hub import Hub

_OLD_CODES = {
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID_NOT_VALID: 2,
    Reason.SERVER_BUSY: 3,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.BAD_CREDENTIALS: 4,
    Reason.NOT_AUTHORIZED: 5,
}
"""Return codes of a CONNACK packet of MQTT 3.1.1; a client is not told of other reasons."""


MOST_UNREAD = 1024 * 1024
"""Bytes of answers that are written to a client while it takes nothing, before it is put out."""

MOST_EARLY = 1_000
"""Packets that a client may send before its session is there."""


class Link(Protocol):
    """The bytes of one connection."""

    def write(self, data: bytes) -> None: ...

    @property
    def is_full(self) -> bool:
        """More waits to be written than a client that keeps up would leave waiting."""
        ...

    def close(self) -> None:
        """End the connection behind what was written."""
        ...


class Connection:
    """Ends at the first packet that breaks a rule, with the reason where the client can be told it."""

    __slots__ = (
        "_aliases",
        "_authentication",
        "_decoder",
        "_early",
        "_heard_at",
        "_hub",
        "_keep_alive",
        "_largest",
        "_link",
        "_most_own_aliases",
        "_own_aliases",
        "_session",
        "_under_way",
        "_unread",
        "_will",
        "deadline",
        "is_open",
        "pending",
        "version",
    )

    def __init__(self, hub: Hub, link: Link) -> None:
        self._link = link
        self.version = V5
        self._hub = hub
        self._session: Session | None = None
        self._will: Will | None = None
        self.is_open = True
        self._authentication: Authentication | None = None
        """None for a client without enhanced authentication."""
        self._early: list[Packet] | None = None
        """What the client has sent while its session is being fetched; None when nothing is fetched."""
        self._aliases: dict[int, str] = NONE
        """The client's topic aliases."""
        self._own_aliases: dict[str, int] = NONE
        self._most_own_aliases = 0
        self._largest: int | None = None
        """Bytes of a packet that the client takes."""
        self._under_way = 0
        """Messages of QoS 1 and 2 from the client that are not acknowledged."""
        self._unread = 0
        """Bytes of answers that were written while the link was full."""
        self.pending = 0
        """Messages from the client that the network does not have yet."""
        self._keep_alive = 0.0
        self._heard_at = hub.clock.now()
        self._decoder = Decoder(hub.config.largest_packet)
        self.deadline = 0
        hub.deadlines.set(self, hub.config.connect_seconds)

    @property
    def is_full(self) -> bool:
        return self._link.is_full

    @property
    def is_authenticated(self) -> bool:
        """The client has shown who it is by enhanced authentication."""
        return self._authentication is not None and self._authentication.connect is None

    @property
    def will(self) -> Will | None:
        return self._will

    @property
    def has_aliases(self) -> bool:
        return self._most_own_aliases > 0

    def send(self, packet: Packet) -> bool:
        """Whether the packet went; it does not when it is larger than the client takes."""
        if isinstance(packet, Publish):
            return self._send_with_alias(packet) if self.has_aliases else self._write(packet)
        return self._answer(write_packet(packet, self.version))

    def acknowledge(self, code: int, packet_id: int) -> None:
        """Send an acknowledgement without a reason."""
        self._answer(plain_ack(code, packet_id))

    def _answer(self, answer: bytes) -> bool:
        if self._link.is_full:
            # Messages wait until the client takes more; it is answered as often as it asks.
            self._unread += len(answer)
            if self._unread > MOST_UNREAD and self.is_open:
                self._hub.drop("client_takes_nothing")
                self.lost()
                return False
        return self.send_bytes(answer)

    def send_bytes(self, packet: bytes) -> bool:
        """As `send`, a packet that is encoded already."""
        if self._largest is not None and len(packet) > self._largest:
            return False
        self._link.write(packet)
        return True

    def _write(self, packet: Packet) -> bool:
        return self.send_bytes(write_packet(packet, self.version))

    def _send_with_alias(self, packet: Publish) -> bool:
        """Send a number in place of a topic that the client was sent before."""
        known = self._own_aliases.get(packet.topic)
        if known is None and len(self._own_aliases) >= self._most_own_aliases:
            return self._write(packet)
        alias = known or len(self._own_aliases) + 1
        properties = {**packet.properties, "topic_alias": alias}
        topic = "" if known else packet.topic
        if not self._write(replace(packet, topic=topic, properties=properties)):
            return False
        self._own_aliases = self._own_aliases or {}
        self._own_aliases[packet.topic] = alias
        return True

    def feed(self, data: bytes) -> None:
        """React to bytes of the client. Nothing that a client sends makes this raise."""
        self._heard_at = self._hub.clock.now()
        try:
            for packet in self._decoder.feed(data):
                if not self.is_open:
                    break
                self._react(packet)
        except MqttError as error:
            self.fail(error)
        self._hub.partials.note(self, self._decoder.waiting if self.is_open else 0)

    def receive(self, packet: Packet) -> None:
        """React to a packet. Nothing that a client sends makes this raise."""
        if not self.is_open:
            return
        try:
            self._react(packet)
        except MqttError as error:
            self.fail(error)

    def _react(self, packet: Packet) -> None:
        session = self._session
        if session is not None:
            if type(packet) is Publish:
                self._on_publish(session, packet)
                return
            if type(packet) is Ack:
                self._on_ack(session, packet)
                return
        if isinstance(packet, Connect):
            self._on_connect(packet)
            return
        if isinstance(packet, Auth):
            self._on_auth(packet)
            return
        if self._authentication is not None and self._authentication.connect is not None:
            if not isinstance(packet, Disconnect):
                raise violation("something else than AUTH came during the authentication")
            self.lost()
            return
        if self._early is not None:
            if len(self._early) >= MOST_EARLY:
                raise MqttError(Reason.QUOTA_EXCEEDED, "too much was sent before CONNACK")
            self._early.append(packet)
            return
        if session is None:
            raise violation("the first packet is not CONNECT")
        match packet:
            case Subscribe():
                self._on_subscribe(session, packet)
            case Unsubscribe():
                self._on_unsubscribe(session, packet)
            case Ping() if packet.code == PINGREQ:
                self.send(Ping(PINGRESP))
            case Disconnect():
                self._on_disconnect(session, packet)
            case _:
                raise violation(f"a client does not send packets of type {packet.code}")

    # -- beginning and end --

    def _on_connect(self, connect: Connect) -> None:
        if self._session is not None or self._early is not None:
            raise violation("a second CONNECT packet")
        self.version = connect.version
        if self.version != V5 and not connect.client_id and not connect.clean_start:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "a lasting session needs a client id")
        if connect.will is not None:
            topic_of(connect.will.topic)
        self._early = []
        if "authentication_method" in connect.properties:
            self._authentication = Authentication(self._hub.authenticator, connect)
            given = connect.properties.get("authentication_data", b"")
            self._go_on(self._authentication, self._authentication.step(given))
        elif "authentication_data" in connect.properties:
            raise violation("authentication data without a method")
        else:
            self._enter(connect)

    def _on_auth(self, packet: Auth) -> None:
        if self._authentication is None:
            raise violation("the client has named no authentication method")
        self._go_on(self._authentication, self._authentication.hear(packet))

    def _go_on(self, authentication: Authentication, is_done: bool) -> None:
        """Answer a step of the client's authentication."""
        connect = authentication.connect
        if is_done and connect is not None:
            authentication.connect = None
            self._enter(connect)  # CONNACK is the answer
        else:
            reason = Reason.SUCCESS if is_done else Reason.CONTINUE_AUTHENTICATION
            self.send(Auth(reason, authentication.properties))

    def _enter(self, connect: Connect) -> None:
        """The client is who it says, or was not asked."""
        config = self._hub.config
        asked = connect.properties.get("session_expiry_interval", 0)
        if self.version != V5:
            asked = 0 if connect.clean_start else config.longest_expiry
        expiry = min(asked, config.longest_expiry)
        self._hub.deadlines.cancel(self)
        self._hub.entering.enter(self, connect, expiry, partial(self._entered, connect, asked))

    def _entered(
        self, connect: Connect, asked: float, session: Session, present: bool, given: str
    ) -> None:
        """The client's session is there; `present`: it was there before; `given`: the client's new id."""
        config = self._hub.config
        self._session, self._will = session, connect.will
        session.receive_maximum = connect.properties.get("receive_maximum", LAST_PACKET_ID)
        self._largest = connect.properties.get("maximum_packet_size")
        self._most_own_aliases = min(
            connect.properties.get("topic_alias_maximum", 0), config.topic_aliases
        )
        keep_alive = connect.keep_alive
        properties: dict[str, object] = {}
        if self.version == V5:
            properties = {
                "receive_maximum": config.receive_maximum,
                "topic_alias_maximum": config.topic_aliases,
                "maximum_packet_size": config.largest_packet,
            }
            if self._authentication is not None:
                properties |= self._authentication.properties
            if given:
                properties["assigned_client_identifier"] = given
            if session.expiry != asked:
                properties["session_expiry_interval"] = int(session.expiry)
            longest = config.longest_keep_alive
            if longest < LAST_PACKET_ID and not 0 < keep_alive <= longest:
                keep_alive = properties["server_keep_alive"] = longest
        self._keep_alive = 1.5 * keep_alive
        self._heard_at = self._hub.clock.now()  # the client may have waited for its session
        if keep_alive:
            self._hub.deadlines.set(self, self._keep_alive)
        self.send(ConnAck(present, Reason.SUCCESS, properties))
        early, self._early = self._early or (), None
        session.resume(self)
        for packet in early:
            self.receive(packet)

    def _on_disconnect(self, session: Session, packet: Disconnect) -> None:
        expiry = packet.properties.get("session_expiry_interval")
        if expiry is not None:
            if expiry and not session.expiry:
                raise violation("a session that ends with its connection cannot be kept after all")
            session.expiry = min(expiry, self._hub.config.longest_expiry)
        if packet.reason != Reason.DISCONNECT_WITH_WILL:
            self._will = None
        self.lost()

    def fail(self, error: MqttError) -> None:
        """End the connection because of what the client did."""
        if not self.is_open:
            return
        self._hub.drop(f"client_{error.reason.name.lower()}")
        if self._session is None:
            self._refuse(error)
        elif self.version == V5:
            reason = {"reason_string": str(error)[:200]}
            self.send(Disconnect(error.reason, reason))
        self.lost()

    def _refuse(self, error: MqttError) -> None:
        if self.version == V5:
            self.send(ConnAck(False, error.reason))
        elif error.reason in _OLD_CODES:
            self.send(ConnAck(False, _OLD_CODES[error.reason]))

    def taken_over(self) -> None:
        """The same client has connected again."""
        if self.version == V5:
            self.send(Disconnect(Reason.SESSION_TAKEN_OVER))
        self.lost()

    def shut_down(self) -> None:
        """The door closes."""
        if self.is_open and self._session is not None and self.version == V5:
            self.send(Disconnect(Reason.SERVER_SHUTTING_DOWN))
        self.lost()

    def lost(self) -> None:
        """The connection is over, from whichever side."""
        if not self.is_open:
            return
        self.is_open = False
        self._hub.deadlines.cancel(self)
        self._hub.partials.note(self, 0)
        self._link.close()
        if self._session is not None:
            self._hub.leave(self, self._session, self._will)

    def fell_behind(self) -> None:
        """A message was dropped, since the client does not take what it is sent."""
        if self._hub.config.slow_clients == "disconnect":
            self.fail(MqttError(Reason.QUOTA_EXCEEDED, "the client takes too little"))

    def writable(self) -> None:
        """The client has taken what was written: more may be sent."""
        self._unread = 0
        if self.is_open and self._session is not None:
            self._session.pump()

    def overdue(self) -> None:
        """The client has taken too long to say who it is, or may have been silent for too long."""
        if self._session is None:
            self._hub.drop("client_without_connect")
            self.lost()
            return
        left = self._heard_at + self._keep_alive - self._hub.clock.now()
        if left > 0:
            self._hub.deadlines.set(self, left)
        else:
            self.fail(MqttError(Reason.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long"))

    # -- messages from the client --

    def _on_publish(self, session: Session, packet: Publish) -> None:
        name = packet.topic
        if packet.properties:
            name = self._resolve_alias(packet)
            if "subscription_identifier" in packet.properties:
                raise violation("a client does not send subscription identifiers")
        topic_of(name)
        message = MqttMessage.published(packet, name, sender_of(session.client_id))
        if not self._hub.access.publish(session.client_id, name):
            self._refuse_message(packet)
            return
        if packet.qos == 0:
            self.pending += 1
            self._hub.publish(message, self._sent)
            return
        packet_id = packet.packet_id
        if packet.qos == 2 and packet_id in session.arriving:
            if session.arriving[packet_id]:
                self.send(Ack(PUBREC, packet_id))
            return
        if self._under_way >= self._hub.config.receive_maximum and self.version == V5:
            raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, "too many messages are under way")
        self._under_way += 1
        id = b""
        if packet.qos == 2:
            session.arriving = session.arriving or {}
            session.arriving[packet_id] = False
            id = session.message_id(packet_id)
        self.pending += 1
        self._hub.publish(message, partial(self._published, session, packet_id, packet.qos), id)

    def _refuse_message(self, packet: Publish) -> None:
        """The client may not publish there. MQTT 3.1.1 cannot say so: the message is taken and dropped."""
        self._hub.drop("not_authorized")
        if packet.qos:
            code = PUBACK if packet.qos == 1 else PUBREC
            reason = Reason.NOT_AUTHORIZED if self.version == V5 else Reason.SUCCESS
            self.send(Ack(code, packet.packet_id, reason))

    def _sent(self, reason: Reason) -> None:
        """The network has a message of QoS 0, or has refused it."""
        self.pending -= 1

    def _published(self, session: Session, packet_id: int, qos: int, reason: Reason) -> None:
        """The network has a message of QoS 1 or 2, or has refused it."""
        self.pending -= 1
        failed = reason >= Reason.UNSPECIFIED
        if qos == 1 or failed:
            self._under_way -= 1
        if qos == 2:
            if failed:
                session.arriving.pop(packet_id, None)
            else:
                session.arriving[packet_id] = True
        if not self.is_open:
            return
        if failed and self.version != V5:
            # MQTT 3.1.1 knows no refusal: without an acknowledgement the client sends it again.
            self.fail(MqttError(reason, "the message could not be published"))
            return
        code = PUBACK if qos == 1 else PUBREC
        if reason == Reason.SUCCESS:
            self.acknowledge(code, packet_id)
        else:
            self.send(Ack(code, packet_id, reason))

    def _resolve_alias(self, packet: Publish) -> str:
        alias = packet.properties.get("topic_alias")
        if alias is None:
            return packet.topic
        if alias > self._hub.config.topic_aliases:
            raise MqttError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias} is too large")
        if packet.topic:
            self._aliases = self._aliases or {}
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise violation(f"topic alias {alias} stands for nothing yet")
        return self._aliases[alias]

    def _on_ack(self, session: Session, ack: Ack) -> None:
        if ack.code != PUBREL:
            session.acknowledged(ack)
            return
        known = session.arriving.pop(ack.packet_id, None) if session.arriving else None
        if known is not None:
            self._under_way = max(0, self._under_way - 1)
        if session.keeper is not None:
            complete = partial(self._send_if_open, Ack(PUBCOMP, ack.packet_id))
            session.released_by_client(session.keeper, ack.packet_id, complete)
        elif known is not None:
            self.acknowledge(PUBCOMP, ack.packet_id)
        else:
            self.send(Ack(PUBCOMP, ack.packet_id, Reason.PACKET_ID_NOT_FOUND))

    def _send_if_open(self, packet: Packet) -> None:
        if self.is_open:
            self.send(packet)

    # -- subscribing --

    def _on_subscribe(self, session: Session, packet: Subscribe) -> None:
        identifiers = packet.properties.get("subscription_identifier", [])
        if len(identifiers) > 1:
            raise violation("a SUBSCRIBE packet has several subscription identifiers")
        identifier = identifiers[0] if identifiers else None
        reasons: list[int | None] = [None] * len(packet.asked)

        def done(place: int) -> Callable[[Reason], None]:
            def tell(reason: Reason) -> None:
                reasons[place] = reason
                codes = [one for one in reasons if one is not None]
                if len(codes) == len(reasons) and self.is_open:
                    if self.version != V5:
                        codes = [one if one < Reason.UNSPECIFIED else 0x80 for one in codes]
                    self.send(Reasons(SUBACK, packet.packet_id, tuple(codes)))

            return tell

        for place, asked in enumerate(packet.asked):
            self._hub.subscribe(session, asked, identifier, done(place))

    def _on_unsubscribe(self, session: Session, packet: Unsubscribe) -> None:
        reasons = [
            Reason.SUCCESS
            if self._hub.unsubscribe(session, text)
            else Reason.NO_SUBSCRIPTION_EXISTED
            for text in packet.filters
        ]
        answer = Reasons(UNSUBACK, packet.packet_id, tuple(reasons))
        if session.keeper is None:
            self.send(answer)
        else:
            session.keeper.changed(partial(self._send_if_open, answer))
