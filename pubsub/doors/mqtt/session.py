"""One client's session: what it has subscribed to, and the messages that are on their way to it.

The session outlives connections for as long as the client has asked for (section 4.1). Messages of QoS 1
and 2 are sent in the order in which they came, at most `receive_maximum` of them at a time, and again, in the
same order, when the client comes back (section 4.4). They are kept in this process alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pubsub.doors.mqtt.filters import TopicFilter
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Asked,
    Packet,
    Publish,
    Reason,
    violation,
)

LAST_PACKET_ID = 0xFFFF

MOST_KEYS = 8_192
"""Events of a client that are known again when they come from the archive too."""


class Client(Protocol):
    """The connection of a client, as its session sees it."""

    def send(self, packet: Packet) -> bool:
        """Whether the packet went; it does not when it is larger than the client takes."""
        ...

    @property
    def is_full(self) -> bool:
        """More waits to be written than a client that keeps up would leave waiting."""
        ...


class Following(Protocol):
    """What an archive keeps for one subscription of a client."""

    def end(self, forget: bool) -> None:
        """Take nothing more from the archive, which forgets all of it, or keeps it for another door."""
        ...


@dataclass(slots=True)
class Granted:
    """A subscription of the client."""

    filter: TopicFilter
    asked: Asked
    identifier: int | None
    """Told with every message that the subscription brings, if the client gave one."""
    following: Following | None = None
    """The archive keeps for it what the client has not acknowledged."""


@dataclass(slots=True)
class Outgoing:
    """A message for this client."""

    message: MqttMessage
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    since: float
    """When it came, for its expiry."""
    received: bool = False
    """QoS 2: the client has it and has said so; what is left is PUBREL."""
    key: bytes = b""
    """The event's id, where it may come twice: on its usual way, and from the archive."""
    done: Callable[[], None] | None = None
    """Tells the archive that the client has it."""


class Session:
    """A synchronous object; `drop` counts messages that are not delivered, under a reason."""

    def __init__(
        self,
        client_id: str,
        most_waiting: int,
        clock: Callable[[], float],
        drop: Callable[[str], None],
    ) -> None:
        self.client_id = client_id
        self.client: Client | None = None
        self.expiry = 0.0
        """Seconds that the session lasts without a connection."""
        self.is_fresh = False
        """The client wants nothing of a session before it."""
        self.receive_maximum = LAST_PACKET_ID
        self.subscriptions: dict[str, Granted] = {}
        self.arriving: dict[int, bool] = {}
        """Packet ids of QoS 2 messages from the client that are not complete; True once they are safe."""
        self._most_waiting = most_waiting
        self._clock = clock
        self._drop = drop
        self._waiting: deque[Outgoing] = deque()
        self._inflight: dict[int, Outgoing] = {}
        self._last_id = 0
        self._keyed: dict[bytes, Outgoing | None] = {}
        """What came by its key; None once the client has it."""

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged, whether they were sent or not."""
        return len(self._waiting) + len(self._inflight)

    def offer(self, outgoing: Outgoing) -> None:
        """Send a message, or keep it until there is room or a connection."""
        if not outgoing.qos:
            if self.client is None:
                self._drop("not_connected")
            elif self.client.is_full:
                self._drop("slow_client")
            else:
                self._send(outgoing, 0)
        elif outgoing.key in self._keyed:
            self._came_again(outgoing)
        elif len(self._waiting) >= self._most_waiting and outgoing.done is None:
            self._drop("session_full")
        else:
            if outgoing.key:
                self._keyed[outgoing.key] = outgoing
                if len(self._keyed) > MOST_KEYS:
                    del self._keyed[next(iter(self._keyed))]
            self._waiting.append(outgoing)
            self.pump()

    def _came_again(self, outgoing: Outgoing) -> None:
        """It is here, or was, and is not sent twice; the archive is told when the client has it."""
        first = self._keyed[outgoing.key]
        if first is not None:
            first.done = first.done or outgoing.done
        elif outgoing.done is not None:
            outgoing.done()

    def _finish(self, outgoing: Outgoing) -> None:
        """The client has it, or will never get it."""
        if outgoing.key in self._keyed:
            self._keyed[outgoing.key] = None
        if outgoing.done is not None:
            outgoing.done()

    def pump(self) -> None:
        """Send what there is room for."""
        while self._waiting and self.client is not None and not self.client.is_full:
            if len(self._inflight) >= self.receive_maximum:
                return
            outgoing = self._waiting.popleft()
            packet_id = self._next_id()
            self._inflight[packet_id] = outgoing
            if not self._send(outgoing, packet_id):
                self._finish(self._inflight.pop(packet_id))

    def resume(self, client: Client) -> None:
        """The client is back: send again what it has not acknowledged, then what has come since."""
        self.client = client
        for packet_id, outgoing in list(self._inflight.items()):
            if outgoing.received:
                client.send(Ack(PUBREL, packet_id))
            elif not self._send(outgoing, packet_id, dup=True):
                self._finish(self._inflight.pop(packet_id))
        self.pump()

    def acknowledged(self, ack: Ack) -> None:
        """PUBACK, PUBREC or PUBCOMP of the client. `MqttError` when it does not fit the message's QoS."""
        outgoing = self._inflight.get(ack.packet_id)
        if outgoing is None:
            if ack.code == PUBREC and self.client is not None:
                self.client.send(Ack(PUBREL, ack.packet_id, Reason.PACKET_ID_NOT_FOUND))
            return
        if (ack.code == PUBACK) != (outgoing.qos == 1):
            raise violation(f"an acknowledgement of QoS {outgoing.qos} has the type {ack.code}")
        if ack.code == PUBREC and ack.reason < Reason.UNSPECIFIED:
            outgoing.received = True
            if self.client is not None:
                self.client.send(Ack(PUBREL, ack.packet_id))
            return
        if ack.code == PUBCOMP and not outgoing.received:
            raise violation("PUBCOMP came before PUBREC")
        self._finish(self._inflight.pop(ack.packet_id))
        self.pump()

    def _send(self, outgoing: Outgoing, packet_id: int, dup: bool = False) -> bool:
        """Whether the message went; it does not when it has expired, or is larger than the client takes."""
        message = outgoing.message.aged(self._clock() - outgoing.since)
        if message is None:
            self._drop("expired")
            return False
        properties = dict(message.properties)
        if outgoing.identifiers:
            properties["subscription_identifier"] = list(outgoing.identifiers)
        assert self.client is not None
        packet = Publish(
            message.topic,
            message.payload,
            outgoing.qos,
            outgoing.retain,
            dup,
            packet_id,
            properties,
        )
        if not self.client.send(packet):
            self._drop("too_large_for_client")
            return False
        return True

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % LAST_PACKET_ID + 1
            if self._last_id not in self._inflight:
                return self._last_id
