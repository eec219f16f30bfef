"""A subscription on its way from SUBSCRIBE to SUBACK: the network brings the topic, and an archive keeps it.

SUBACK goes out when everything that is published after it reaches the client: when the door hears the topic;
where an archive keeps the topic, when it keeps messages for the client, or for the client's group; and where
the session is kept, when the subscription is written down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.packets import (
    SUBACK,
    UNSUBACK,
    V5,
    MqttError,
    Reason,
    Reasons,
    Subscribe,
    Unsubscribe,
    violation,
)
from pubsub.doors.mqtt.session import Granted, Session

if TYPE_CHECKING:
    from pubsub.doors.mqtt.connection import Connection
    from pubsub.doors.mqtt.hub import Hub


MOST_ASKED = 4_096
"""Topic filters of one SUBSCRIBE packet."""


def name_at_archive(client_id: str, filter: str) -> str:
    """The durable name of a client's subscription, the same at every door."""
    packed = b"%d:%s%s" % (len(client_id.encode()), client_id.encode(), filter.encode())
    return "mqtt-" + hashlib.blake2s(packed, digest_size=16).hexdigest()


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


class Subscribing:
    """A subscription that a client has asked for, until it works."""

    def __init__(
        self,
        hub: Hub,
        session: Session,
        granted: Granted,
        topic: str,
        is_new: bool,
        done: Callable[[Reason], None],
    ) -> None:
        self._hub = hub
        self._session = session
        self._granted = granted
        self._topic = topic
        self._is_new = is_new
        self._done = done

    def begin(self, kept: bool) -> None:
        """`kept`: an archive is to keep for the client what it has not acknowledged."""
        if not self._is_new:
            self._ready(Reason.SUCCESS)
        elif self._granted.filter.group is not None and self._hub.shared(self._granted).is_kept:
            self._hub.network.watch(self._topic, partial(self._then, self._share))
        elif kept:
            self._hub.network.watch(self._topic, partial(self._then, self._follow))
        else:
            self._hub.network.watch(self._topic, self._ready)

    def _then(self, further: Callable[[], None], reason: Reason) -> None:
        """The network brings the messages of the topic; nothing further is to be done for a client that has
        left meanwhile."""
        text = self._granted.asked.filter
        if reason == Reason.SUCCESS and self._session.subscriptions.get(text) is self._granted:
            further()
        else:
            self._ready(reason)

    def _share(self) -> None:
        self._hub.shared(self._granted).when_ready(self._ready)

    def _follow(self) -> None:
        session, granted = self._session, self._granted
        text = granted.asked.filter
        granted.following = self._hub.network.follow(
            name_at_archive(session.client_id, text),
            self._topic,
            _Kept(self._hub, session, text, self._ready),
            session.is_fresh,
            granted.before,
        )

    def _ready(self, reason: Reason) -> None:
        session, has_moved = self._session, self._granted.before is not None
        if reason != Reason.SUCCESS and has_moved:
            self._hub.archive_lost(session)
        elif reason != Reason.SUCCESS:
            self._hub.unsubscribe(session, self._granted.asked.filter)
            self._done(reason)
        elif session.keeper is None:
            self._tell()
        elif not has_moved:
            session.keeper.changed(self._tell)

    def _tell(self) -> None:
        asked = self._granted.asked
        self._done(Reason(asked.qos))
        wanted = asked.retain_handling == 0 or (self._is_new and asked.retain_handling == 1)
        if self._granted.filter.group is None and wanted:
            self._hub.send_retained(self._session, self._granted)


def subscribe(hub: Hub, connection: Connection, session: Session, packet: Subscribe) -> None:
    """Make the client's subscriptions; SUBACK goes out when all of them work, or are refused."""
    identifiers = packet.properties.get("subscription_identifier", [])
    if len(identifiers) > 1:
        raise violation("a SUBSCRIBE packet has several subscription identifiers")
    identifier = identifiers[0] if identifiers else None
    if len(packet.asked) > MOST_ASKED:
        raise MqttError(Reason.QUOTA_EXCEEDED, "a SUBSCRIBE packet has too many topic filters")
    reasons: dict[int, int] = {}

    def done(place: int, reason: Reason) -> None:
        is_told = reason < Reason.UNSPECIFIED or connection.version == V5
        reasons[place] = reason if is_told else Reason.UNSPECIFIED
        if len(reasons) == len(packet.asked):
            codes = tuple(reasons[one] for one in range(len(reasons)))
            connection.send_if_open(Reasons(SUBACK, packet.packet_id, codes))

    for place, asked in enumerate(packet.asked):
        hub.subscribe(session, asked, identifier, partial(done, place))


def unsubscribe(hub: Hub, connection: Connection, session: Session, packet: Unsubscribe) -> None:
    """End the client's subscriptions, and tell it so when no other door would make them again."""
    reasons = [
        Reason.SUCCESS if hub.unsubscribe(session, text) else Reason.NO_SUBSCRIPTION_EXISTED
        for text in packet.filters
    ]
    answer = Reasons(UNSUBACK, packet.packet_id, tuple(reasons))
    if session.keeper is None:
        connection.send(answer)
    else:
        session.keeper.changed(partial(connection.send_if_open, answer))
