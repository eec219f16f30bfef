"""One connection of a client: the order of its packets, what is sent to it, its keep-alive, and its end.

How it begins is `Greeting`, what the client publishes `Publishing`. Very many clients are connected and idle:
what only a busy one needs is there while it is busy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pubsub.doors.mqtt.greeting import Greeting, refusal
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PINGRESP,
    PUBREL,
    V5,
    Ack,
    Auth,
    Connect,
    Decoder,
    Disconnect,
    MqttError,
    Packet,
    Ping,
    Publish,
    Reason,
    Subscribe,
    Unsubscribe,
    Will,
    plain_ack,
    violation,
    write_packet,
)
from pubsub.doors.mqtt.publishing import Publishing
from pubsub.doors.mqtt.session import NONE, Session
from pubsub.doors.mqtt.subscribing import subscribe, unsubscribe

if TYPE_CHECKING:
    from pubsub.doors.mqtt.hub import Hub

MOST_UNREAD = 1024 * 1024
"""Bytes of answers that are written to a client while it takes nothing, before it is put out."""


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
        "_decoder",
        "_greeting",
        "_heard_at",
        "_hub",
        "_keep_alive",
        "_largest",
        "_link",
        "_most_own_aliases",
        "_own_aliases",
        "_publishing",
        "_session",
        "_unread",
        "deadline",
        "is_open",
        "version",
        "will",
    )

    def __init__(self, hub: Hub, link: Link) -> None:
        self._link = link
        self.version = V5
        self._hub = hub
        self._greeting: Greeting | None = None
        """There from CONNECT to CONNACK, and longer where the client may authenticate itself again."""
        self._session: Session | None = None
        self._publishing: Publishing | None = None
        """None for a client that has published nothing."""
        self.will: Will | None = None
        self.is_open = True
        self._own_aliases: dict[str, int] = NONE
        """The topic aliases that are sent to the client."""
        self._most_own_aliases = 0
        self._largest: int | None = None
        """Bytes of a packet that the client takes."""
        self._unread = 0
        """Bytes of answers that were written while the link was full."""
        self._keep_alive = 0
        """Seconds; 0 for no limit."""
        self._heard_at = hub.clock.now()
        self._decoder: Decoder | None = None
        """None while no packet waits for its rest."""
        self.deadline = 0
        hub.deadlines.set(self, hub.config.connect_seconds)

    @property
    def is_full(self) -> bool:
        return self._link.is_full

    @property
    def is_busy(self) -> bool:
        """Nothing more is to be read from the client for the moment."""
        return self._publishing is not None and self._publishing.is_busy

    @property
    def is_authenticated(self) -> bool:
        """The client has shown who it is by enhanced authentication."""
        return self._greeting is not None and self._greeting.is_authenticated

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
        decoder = self._decoder or Decoder(self._hub.config.largest_packet, self.version)
        try:
            for packet in decoder.feed(data):
                if not self.is_open:
                    break
                self._react(packet)
        except MqttError as error:
            self.fail(error)
        waiting = decoder.waiting if self.is_open else 0
        if waiting or self._decoder is not None:
            self._decoder = decoder if waiting else None
            self._hub.partials.note(self, waiting)

    def receive(self, packet: Packet) -> None:
        """React to a packet. Nothing that a client sends makes this raise."""
        if not self.is_open:
            return
        try:
            self._react(packet)
        except MqttError as error:
            self.fail(error)

    def send_if_open(self, packet: Packet) -> None:
        if self.is_open:
            self.send(packet)

    def _react(self, packet: Packet) -> None:
        session = self._session
        if session is None:
            self._greet(packet)
        elif type(packet) is Publish:
            self._publisher(session).take(packet)
        elif type(packet) is Ack:
            if packet.code == PUBREL:
                self._publisher(session).release(packet.packet_id)
            else:
                session.acknowledged(packet)
        else:
            self._serve(session, packet)

    def _greet(self, packet: Packet) -> None:
        """React to a packet of a client that has no session yet."""
        if self._greeting is not None:
            self._greeting.hear(packet)
        elif isinstance(packet, Connect):
            self._greeting = Greeting(self._hub, self)
            self._greeting.begin(packet)
        else:
            raise violation("the first packet is not CONNECT")

    def _publisher(self, session: Session) -> Publishing:
        if self._publishing is None:
            self._publishing = Publishing(self._hub, self, session)
        return self._publishing

    def _serve(self, session: Session, packet: Packet) -> None:
        """React to a packet that has nothing to do with a message."""
        match packet:
            case Subscribe():
                subscribe(self._hub, self, session, packet)
            case Unsubscribe():
                unsubscribe(self._hub, self, session, packet)
            case Ping() if packet.code == PINGREQ:
                self.send(Ping(PINGRESP))
            case Disconnect():
                self._on_disconnect(session, packet)
            case Auth() if self._greeting is not None:
                self._greeting.authenticate(packet)
            case Auth():
                raise violation("the client has named no authentication method")
            case Connect():
                raise violation("a second CONNECT packet")
            case _:
                raise violation(f"a client does not send packets of type {packet.code}")

    def admit(
        self, session: Session, connect: Connect, keep_alive: int, may_authenticate: bool
    ) -> None:
        """The client is let in, with this session; `may_authenticate`: itself, again."""
        self._session, self.will = session, connect.will
        self._largest = connect.properties.get("maximum_packet_size")
        self._most_own_aliases = min(
            connect.properties.get("topic_alias_maximum", 0), self._hub.config.topic_aliases
        )
        self._keep_alive = keep_alive
        self._heard_at = self._hub.clock.now()  # the client may have waited for its session
        if keep_alive:
            self._hub.deadlines.set(self, 1.5 * keep_alive)
        if not may_authenticate:
            self._greeting = None

    # -- the end --

    def _on_disconnect(self, session: Session, packet: Disconnect) -> None:
        expiry = packet.properties.get("session_expiry_interval")
        if expiry is not None:
            if expiry and not session.expiry:
                raise violation("a session that ends with its connection cannot be kept after all")
            session.expiry = min(expiry, self._hub.config.longest_expiry)
        if packet.reason != Reason.DISCONNECT_WITH_WILL:
            self.will = None
        self.lost()

    def fail(self, error: MqttError) -> None:
        """End the connection because of what the client did."""
        if not self.is_open:
            return
        self._hub.drop(f"client_{error.reason.name.lower()}")
        if self._session is None:
            if (told := refusal(error, self.version)) is not None:
                self.send(told)
        elif self.version == V5:
            reason = {"reason_string": str(error)[:200]}
            self.send(Disconnect(error.reason, reason))
        self.lost()

    def taken_over(self) -> None:
        """The same client has connected again."""
        if self._session is None:  # before CONNACK there is no DISCONNECT (section 3.14)
            self.fail(MqttError(Reason.SERVER_UNAVAILABLE, "the client has connected once more"))
        elif self.version == V5:
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
            self._hub.leave(self, self._session, self.will)

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
        left = self._heard_at + 1.5 * self._keep_alive - self._hub.clock.now()
        if left > 0:
            self._hub.deadlines.set(self, left)
        else:
            self.fail(MqttError(Reason.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long"))
