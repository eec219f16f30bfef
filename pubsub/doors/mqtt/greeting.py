"""How a connection begins: CONNECT, enhanced authentication, CONNACK, and what the client sends meanwhile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubsub.doors.mqtt.authentication import Authentication
from pubsub.doors.mqtt.message import topic_of
from pubsub.doors.mqtt.packets import (
    V5,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    MqttError,
    Packet,
    Reason,
    violation,
)
from pubsub.doors.mqtt.session import LAST_PACKET_ID, Session

if TYPE_CHECKING:
    from pubsub.doors.mqtt.connection import Connection
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

LONGEST_CLIENT_ID = 1_024
"""Characters; a session is kept by it, connected or not."""

MOST_INFLIGHT = 4_096
"""Messages that one client is sent before it acknowledges any, whatever it asks for."""

MOST_EARLY = 1_000
"""Packets that a client may send before its session is there."""


def refusal(error: MqttError, version: int) -> ConnAck | None:
    """What a client is told that is not let in; None where its version has no word for it."""
    if version == V5:
        return ConnAck(False, error.reason)
    code = _OLD_CODES.get(error.reason)
    return None if code is None else ConnAck(False, code)


class Greeting:
    """One connection from CONNECT until the client is let in; of use after that only where the client may
    authenticate itself again. Methods that hear packets raise `MqttError` for one that breaks a rule."""

    __slots__ = ("_authentication", "_connection", "_early", "_hub")

    def __init__(self, hub: Hub, connection: Connection) -> None:
        self._hub = hub
        self._connection = connection
        self._authentication: Authentication | None = None
        """None for a client without enhanced authentication."""
        self._early: list[Packet] = []
        """What the client has sent while its session is being fetched."""

    @property
    def is_authenticated(self) -> bool:
        """The client has shown who it is by enhanced authentication."""
        return self._authentication is not None and self._authentication.connect is None

    def begin(self, connect: Connect) -> None:
        """The first packet of the client."""
        version = self._connection.version = connect.version
        if version != V5 and not connect.client_id and not connect.clean_start:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "a lasting session needs a client id")
        if len(connect.client_id) > LONGEST_CLIENT_ID:
            raise MqttError(Reason.CLIENT_ID_NOT_VALID, "the client id is too long")
        if connect.will is not None:
            topic_of(connect.will.topic)
        if "authentication_method" in connect.properties:
            self._authentication = Authentication(self._hub.authenticator, connect)
            given = connect.properties.get("authentication_data", b"")
            self._go_on(self._authentication, self._authentication.step(given))
        elif "authentication_data" in connect.properties:
            raise violation("authentication data without a method")
        else:
            self._enter(connect)

    def hear(self, packet: Packet) -> None:
        """A packet of a client that is not let in yet."""
        if isinstance(packet, Connect):
            raise violation("a second CONNECT packet")
        if isinstance(packet, Auth):
            self.authenticate(packet)
        elif self._authentication is not None and self._authentication.connect is not None:
            if not isinstance(packet, Disconnect):
                raise violation("something else than AUTH came during the authentication")
            self._connection.lost()
        elif len(self._early) >= MOST_EARLY:
            raise MqttError(Reason.QUOTA_EXCEEDED, "too much was sent before CONNACK")
        else:
            self._early.append(packet)

    def authenticate(self, packet: Auth) -> None:
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
            self._connection.send(Auth(reason, authentication.properties))

    def _enter(self, connect: Connect) -> None:
        """The client is who it says, or was not asked."""
        config = self._hub.config
        asked = connect.properties.get("session_expiry_interval", 0)
        if connect.version != V5:
            asked = 0 if connect.clean_start else config.longest_expiry
        expiry = min(asked, config.longest_expiry)
        self._hub.deadlines.cancel(self._connection)
        entered = partial(self._entered, connect, asked)
        self._hub.entering.enter(self._connection, connect, expiry, entered)

    def _entered(
        self, connect: Connect, asked: float, session: Session, present: bool, given: str
    ) -> None:
        """The client's session is there; `present`: it was there before; `given`: the client's new id."""
        config, connection = self._hub.config, self._connection
        session.receive_maximum = min(
            connect.properties.get("receive_maximum", MOST_INFLIGHT), MOST_INFLIGHT
        )
        keep_alive = connect.keep_alive
        properties: dict[str, object] = {}
        if connect.version == V5:
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
        connection.admit(session, connect, keep_alive, self._authentication is not None)
        connection.send(ConnAck(present, Reason.SUCCESS, properties))
        early, self._early = self._early, []
        session.resume(connection)
        for packet in early:
            connection.receive(packet)
