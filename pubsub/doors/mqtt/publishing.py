"""Messages of a client on their way from PUBLISH to PUBACK, or to PUBCOMP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubsub.doors.mqtt.message import MqttMessage, sender_of
from pubsub.doors.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    V5,
    Ack,
    MqttError,
    Publish,
    Reason,
    violation,
)
from pubsub.doors.mqtt.session import NONE, Session

if TYPE_CHECKING:
    from pubsub.doors.mqtt.connection import Connection
    from pubsub.doors.mqtt.hub import Hub

MOST_PENDING = 512
"""Messages of one client that wait to be published before no more is read from it."""


class Publishing:
    """What one connection publishes: a client that only subscribes has none. Methods raise `MqttError` for a
    packet that breaks a rule."""

    __slots__ = ("_aliases", "_connection", "_hub", "_pending", "_session", "_under_way")

    def __init__(self, hub: Hub, connection: Connection, session: Session) -> None:
        self._hub = hub
        self._connection = connection
        self._session = session
        self._aliases: dict[int, str] = NONE
        """The client's topic aliases."""
        self._under_way = 0
        """Messages of QoS 1 and 2 that are not acknowledged."""
        self._pending = 0
        """Messages that the network does not have yet."""

    @property
    def is_busy(self) -> bool:
        return self._pending >= MOST_PENDING

    def take(self, packet: Publish) -> None:
        session, name = self._session, packet.topic
        if packet.properties:
            name = self._resolve_alias(packet)
            if "subscription_identifier" in packet.properties:
                raise violation("a client does not send subscription identifiers")
        is_allowed = self._hub.may_publish(session.client_id, name)
        message = MqttMessage.published(packet, name, sender_of(session.client_id))
        if not is_allowed:
            self._refuse(packet)
            return
        if packet.qos == 0:
            self._pending += 1
            self._hub.publish(message, self._sent)
            return
        packet_id = packet.packet_id
        if packet.qos == 2 and packet_id in session.arriving:
            if session.arriving[packet_id]:
                self._connection.send(Ack(PUBREC, packet_id))
            return
        is_v5 = self._connection.version == V5
        if self._under_way >= self._hub.config.receive_maximum and is_v5:
            raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, "too many messages are under way")
        self._under_way += 1
        id = b""
        if packet.qos == 2:
            session.arriving = session.arriving or {}
            session.arriving[packet_id] = False
            id = session.message_id(packet_id)
        self._pending += 1
        self._hub.publish(message, partial(self._published, packet_id, packet.qos), id)

    def release(self, packet_id: int) -> None:
        """PUBREL: the client will not send the message again."""
        session, connection = self._session, self._connection
        known = session.arriving.pop(packet_id, None) if session.arriving else None
        if known is not None:
            self._under_way = max(0, self._under_way - 1)
        if session.keeper is not None:
            complete = partial(connection.send_if_open, Ack(PUBCOMP, packet_id))
            session.released_by_client(session.keeper, packet_id, complete)
        elif known is not None:
            connection.acknowledge(PUBCOMP, packet_id)
        else:
            connection.send(Ack(PUBCOMP, packet_id, Reason.PACKET_ID_NOT_FOUND))

    def _refuse(self, packet: Publish) -> None:
        """The client may not publish there. MQTT 3.1.1 cannot say so: the message is taken and dropped."""
        self._hub.drop("not_authorized")
        if packet.qos:
            code = PUBACK if packet.qos == 1 else PUBREC
            is_told = self._connection.version == V5
            reason = self._hub.not_allowed if is_told else Reason.SUCCESS
            self._connection.send(Ack(code, packet.packet_id, reason))

    def _sent(self, reason: Reason) -> None:
        """The network has a message of QoS 0, or has refused it."""
        self._pending -= 1

    def _published(self, packet_id: int, qos: int, reason: Reason) -> None:
        """The network has a message of QoS 1 or 2, or has refused it."""
        session, connection = self._session, self._connection
        self._pending -= 1
        failed = reason >= Reason.UNSPECIFIED
        if qos == 1 or failed:
            self._under_way -= 1
        if qos == 2:
            if failed:
                session.arriving.pop(packet_id, None)
            else:
                session.arriving[packet_id] = True
        if not connection.is_open:
            return
        if failed and connection.version != V5:
            # MQTT 3.1.1 knows no refusal: without an acknowledgement the client sends it again.
            connection.fail(MqttError(reason, "the message could not be published"))
            return
        code = PUBACK if qos == 1 else PUBREC
        if reason == Reason.SUCCESS:
            connection.acknowledge(code, packet_id)
        else:
            connection.send(Ack(code, packet_id, reason))

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
