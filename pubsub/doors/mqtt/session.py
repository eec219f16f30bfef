"""One client's session: what it has subscribed to, and the messages that are on their way to it.

The session outlives connections for as long as the client has asked for (section 4.1). Messages of QoS 1
and 2 are sent in the order in which they came, at most `receive_maximum` of them at a time, and again, in the
same order, when the client comes back (section 4.4). A session with a `Keeper` outlives its door too: see
`pubsub.doors.mqtt.kept`. The messages of others are kept in this process alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from overlay.bounded import Budget, Share
from pubsub.doors.mqtt.filters import TopicFilter
from pubsub.doors.mqtt.kept import Keeper, KeptSubscription, Record, Sent, event_id
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
    publish_parts,
    violation,
)
from pubsub.doors.mqtt.properties import Properties

LAST_PACKET_ID = 0xFFFF

MOST_KEYS = 8_192
"""Events of a client that are known again when they come from the archive too."""


LARGE = 1024
"""Bytes of a payload that are counted also for a client that keeps up; the number of smaller ones that it is
sent before it acknowledges any is bound enough."""

MESSAGE_BYTES = 256
"""About what a message takes besides its payload."""

NONE: dict[Any, Any] = cast("dict[Any, Any]", MappingProxyType({}))
"""Stands for a dict of a client that nothing is in yet, which most clients have several of."""


class Client(Protocol):
    """The connection of a client, as its session sees it."""

    version: int

    def send(self, packet: Packet) -> bool:
        """Whether the packet went; it does not when it is larger than the client takes."""
        ...

    def send_bytes(self, packet: bytes) -> bool:
        """As `send`, a packet that is encoded already."""
        ...

    def acknowledge(self, code: int, packet_id: int) -> None:
        """Send an acknowledgement without a reason."""
        ...

    def fell_behind(self) -> None:
        """A message was dropped, since the client does not take what it is sent."""
        ...

    @property
    def has_aliases(self) -> bool:
        """Topics are replaced by numbers that are this client's alone."""
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

    @property
    def position(self) -> bytes:
        """What the client has, up to the first message that it has not."""
        ...

    @property
    def finished(self) -> tuple[bytes, ...]:
        """Keys of messages that the client has behind the first that it has not."""
        ...


Form = tuple[int, int, bool, tuple[int, ...]]
"""What the packets of one message differ by: the version, the QoS, whether it is retained, identifiers."""

Forms = dict[Form, tuple[bytes, bytes]]
"""The packets of one message, before and behind their packet id, encoded once for all of its clients."""


@dataclass(slots=True)
class Granted:
    """A subscription of the client."""

    session: Session
    """Whose it is."""
    filter: TopicFilter
    asked: Asked
    identifier: int | None
    """Told with every message that the subscription brings, if the client gave one."""
    following: Following | None = None
    """The archive keeps for it what the client has not acknowledged."""
    before: KeptSubscription | None = None
    """What another door has written down of it, until it is followed here."""


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
    is_recorded: bool = True
    """Another door would know of it what this one knows; False while that is being written down."""
    key: bytes = b""
    """The event's id, where it may come twice: on its usual way, and from the archive."""
    done: Callable[[], None] | None = None
    """Tells the archive that the client has it."""
    forms: Forms = field(default_factory=dict)
    size: int = 0
    """Bytes that are counted for it."""


class Common(NamedTuple):
    """What all sessions of a door have in common."""

    most_waiting: int
    waiting: Budget
    """Bytes that wait in all sessions."""
    now: Callable[[], float]
    drop: Callable[[str], None]
    """Counts messages that are not delivered, under a reason."""


class Session:
    """A synchronous object. Most clients are idle, and there are very many: what an idle one does not need is
    None, or `NONE`."""

    __slots__ = (
        "_common",
        "_finished",
        "_inflight",
        "_keyed",
        "_last_id",
        "_recalled",
        "_share",
        "_waiting",
        "arriving",
        "client",
        "client_id",
        "expiry",
        "incarnation",
        "is_fresh",
        "keeper",
        "receive_maximum",
        "released",
        "subscriptions",
        "will",
    )

    def __init__(self, client_id: str, common: Common) -> None:
        self.client_id = client_id
        self.client: Client | None = None
        self.expiry = 0.0
        """Seconds that the session lasts without a connection."""
        self.is_fresh = False
        """The client wants nothing of a session before it."""
        self.receive_maximum = LAST_PACKET_ID
        self.subscriptions: dict[str, Granted] = {}
        self.arriving: dict[int, bool] = NONE
        """Packet ids of QoS 2 messages from the client that are not complete; True once they are safe."""
        self._common = common
        self._waiting: deque[Outgoing] | None = None
        """None for a client that keeps up."""
        self._share: Share | None = None
        """Bytes of messages that wait, and of large ones that are on their way; None without any."""
        self._inflight: dict[int, Outgoing] = NONE
        self._last_id = 0
        self._keyed: dict[bytes, Outgoing | None] = NONE
        """What came by its key; None once the client has it."""
        self._recalled: dict[bytes, int] = NONE
        """By key: packet ids under which another door sent messages that the archive brings again."""
        self._finished: dict[bytes, None] = NONE
        """Keys of messages that the client got from another door, until the archive brings them again."""
        self.keeper: Keeper | None = None
        self.incarnation = b""
        self.released: dict[int, int] = NONE
        """How often the client has released each packet id of its own; counted where there is a keeper."""
        self.will = b""
        """The id of the client's will at an archive, until the will is over."""

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged, whether they were sent or not."""
        return len(self._waiting or ()) + len(self._inflight)

    def offer(self, outgoing: Outgoing) -> None:
        """Send a message, or keep it until there is room or a connection."""
        if not outgoing.qos:
            if self.client is None:
                self._common.drop("not_connected")
            elif self.client.is_full:
                self._common.drop("slow_client")
                self.client.fell_behind()
            else:
                self._send(outgoing, 0)
        elif outgoing.key in self._keyed:
            self._came_again(outgoing)
        elif outgoing.key in self._recalled:
            self._send_recalled(outgoing)
        elif outgoing.done is None and self._share is not None and self._has_too_much:
            self._common.drop("session_full")
            if self.client is not None:
                self.client.fell_behind()
        else:
            if outgoing.key:
                self._note_key(outgoing.key, outgoing)
            client = self.client
            if (
                self._waiting
                or client is None
                or client.is_full
                or len(self._inflight) >= self.receive_maximum
            ):
                if self._waiting is None:
                    self._waiting = deque()
                self._hold(outgoing)
                self._waiting.append(outgoing)
            else:
                if len(outgoing.message.payload) >= LARGE:
                    self._hold(outgoing)
                self._begin(outgoing)

    @property
    def _has_too_much(self) -> bool:
        is_full = len(self._waiting or ()) >= self._common.most_waiting
        return is_full or (self._share is not None and self._share.is_too_much)

    def _hold(self, outgoing: Outgoing) -> None:
        """Count the bytes of a message until the client has it."""
        if self._share is None:
            self._share = Share(self._common.waiting)
        outgoing.size = len(outgoing.message.payload) + MESSAGE_BYTES
        self._share.add(outgoing.size)

    def let_go(self) -> None:
        """Nothing is held any more: the client has everything, or the session has ended."""
        if self._share is not None:
            self._share.end()
            self._share = None

    def _note_key(self, key: bytes, outgoing: Outgoing | None) -> None:
        if key:
            self._keyed = self._keyed or {}
            self._keyed[key] = outgoing
            if len(self._keyed) > MOST_KEYS:
                del self._keyed[next(iter(self._keyed))]

    def _came_again(self, outgoing: Outgoing) -> None:
        """It is here, or was, and is not sent twice; the archive is told when the client has it."""
        first = self._keyed[outgoing.key]
        if self._finished:
            self._finished.pop(outgoing.key, None)
        if first is None:
            if outgoing.done is not None:
                outgoing.done()
        elif first.done is None:
            first.done = outgoing.done
        elif outgoing.done is not None:  # two archives, or two subscriptions, have brought it
            first.done = partial(_both, first.done, outgoing.done)

    def _finish(self, outgoing: Outgoing) -> None:
        """The client has it, or will never get it."""
        if outgoing.size and self._share is not None:
            self._share.add(-outgoing.size)
            outgoing.size = 0
            if not self._share.bytes:
                self.let_go()
        if outgoing.key and outgoing.key in self._keyed:
            self._keyed[outgoing.key] = None
        if outgoing.done is not None:
            outgoing.done()
            outgoing.done = None

    def pump(self) -> None:
        """Send what there is room for."""
        while self._waiting and self.client is not None and not self.client.is_full:
            if len(self._inflight) >= self.receive_maximum:
                return
            self._begin(self._waiting.popleft())
        if not self._waiting:
            self._waiting = None

    def _begin(self, outgoing: Outgoing) -> None:
        """Send a message of QoS 1 or 2 for the first time."""
        packet_id = self._next_id()
        self._put(packet_id, outgoing)
        if self.keeper is not None and outgoing.qos == 2:
            outgoing.is_recorded = False
            self.keeper.changed(partial(self._send_recorded, outgoing, packet_id))
        elif not self._send(outgoing, packet_id):
            self._finish(self._inflight.pop(packet_id))

    def _send_recorded(self, outgoing: Outgoing, packet_id: int) -> None:
        """Its packet id is safe."""
        outgoing.is_recorded = True
        if self.client is not None and not self._send(outgoing, packet_id):
            self._finish(self._inflight.pop(packet_id))

    def _send_recalled(self, outgoing: Outgoing) -> None:
        """The archive has brought again what another door sent."""
        packet_id = self._recalled.pop(outgoing.key)
        self._note_key(outgoing.key, outgoing)
        self._put(packet_id, outgoing)
        if self.client is not None and not self._send(outgoing, packet_id, dup=True):
            self._finish(self._inflight.pop(packet_id))

    def resume(self, client: Client) -> None:
        """The client is back: send again what it has not acknowledged, then what has come since."""
        self.client = client
        for packet_id, outgoing in list(self._inflight.items()):
            if not outgoing.is_recorded:
                continue  # sent when it is
            if outgoing.received:
                client.send(Ack(PUBREL, packet_id))
            elif not self._send(outgoing, packet_id, dup=True):
                self._finish(self._inflight.pop(packet_id))
        self.pump()

    def acknowledged(self, ack: Ack) -> None:
        """PUBACK, PUBREC or PUBCOMP of the client. `MqttError` when it does not fit the message's QoS."""
        outgoing = self._inflight.get(ack.packet_id)
        if outgoing is None:
            if ack.packet_id in self._recalled.values():
                return  # it is sent again, and so is this
            if ack.code == PUBREC and self.client is not None:
                self.client.send(Ack(PUBREL, ack.packet_id, Reason.PACKET_ID_NOT_FOUND))
            return
        if (ack.code == PUBACK) != (outgoing.qos == 1):
            raise violation(f"an acknowledgement of QoS {outgoing.qos} has the type {ack.code}")
        if ack.code == PUBREC and ack.reason < Reason.UNSPECIFIED:
            self._receive(outgoing, ack.packet_id)
            return
        if ack.code == PUBCOMP and not outgoing.received:
            raise violation("PUBCOMP came before PUBREC")
        self._finish(self._inflight.pop(ack.packet_id))
        if not self._inflight:
            self._inflight = NONE
        if self._waiting:
            self.pump()

    def _receive(self, outgoing: Outgoing, packet_id: int) -> None:
        """The client has a message of QoS 2: release it, as soon as no other door would send it again."""
        is_known, outgoing.received = outgoing.received, True
        if self.keeper is None or (is_known and outgoing.is_recorded):
            self._release(outgoing, packet_id)
        elif not is_known:
            outgoing.is_recorded = False
            self.keeper.changed(partial(self._release, outgoing, packet_id))

    def _release(self, outgoing: Outgoing, packet_id: int) -> None:
        outgoing.is_recorded = True
        self._finish(outgoing)  # the client has it, and whichever door has the session releases it
        if self.client is not None:
            self.client.acknowledge(PUBREL, packet_id)

    # -- at the archive --

    def record(self) -> Record:
        """What another door needs to go on."""
        sent = [
            Sent(packet_id, b"" if one.done is None else one.key, one.received)
            for packet_id, one in self._inflight.items()
            if one.qos == 2
        ]
        sent += [Sent(packet_id, key, False) for key, packet_id in self._recalled.items()]
        subscriptions = []
        for text, one in self.subscriptions.items():
            far = one.following or one.before
            position, finished = (far.position, far.finished) if far else (b"", ())
            subscriptions.append(
                KeptSubscription(text, one.asked.options, one.identifier or 0, position, finished)
            )
        return Record(
            self.incarnation,
            self.expiry,
            self.client is not None,
            self.released,
            sent,
            list(self._finished),
            subscriptions,
            self.will,
        )

    def recall(self, record: Record) -> None:
        """Go on with what another door has written down; its subscriptions are the hub's to make again."""
        self.incarnation, self.released = record.incarnation, record.released
        self._recalled, self._finished = {}, {}
        for packet_id, key, received in record.sent:
            if key and not received:
                self._recalled[key] = packet_id
                continue
            # The client has the message, or nobody has it any more: in both cases the packet id is released.
            if key:
                self._finished[key] = None
            message = MqttMessage("", b"")
            self._put(packet_id, Outgoing(message, 2, False, (), 0.0, received=True))
        for key in (
            *record.finished,
            *(key for one in record.subscriptions for key in one.finished),
        ):
            self._finished[key] = None
        while len(self._finished) > MOST_KEYS:
            del self._finished[next(iter(self._finished))]
        for key in self._finished:
            self._note_key(key, None)

    def message_id(self, packet_id: int) -> bytes:
        """The event's id of a QoS 2 message from the client; empty where a door may choose one."""
        if self.keeper is None:
            return b""
        return event_id(self.incarnation, packet_id, self.released.get(packet_id, 0))

    def released_by_client(self, keeper: Keeper, packet_id: int, then: Callable[[], None]) -> None:
        """PUBREL of the client: `then` is called when every door would know that the packet id is free."""
        self.released = self.released or {}
        self.released[packet_id] = self.released.get(packet_id, 0) + 1
        keeper.changed(then)

    def _send(self, outgoing: Outgoing, packet_id: int, dup: bool = False) -> bool:
        """Whether the message went; it does not when it has expired, or is larger than the client takes."""
        client, message = self.client, outgoing.message
        assert client is not None
        if client.has_aliases or (
            message.properties and "message_expiry_interval" in message.properties
        ):
            aged = message.aged(self._common.now() - outgoing.since)
            if aged is None:
                self._common.drop("expired")
                return False
            went = client.send(_packet(outgoing, aged, packet_id, dup))
        else:
            form = (client.version, outgoing.qos, outgoing.retain, outgoing.identifiers)
            parts = outgoing.forms.get(form)
            if parts is None:
                outgoing.forms[form] = parts = publish_parts(
                    message.topic,
                    message.payload,
                    outgoing.qos,
                    outgoing.retain,
                    _with_identifiers(outgoing, message),
                    client.version,
                )
            head, tail = parts
            if outgoing.qos:
                head = head + packet_id.to_bytes(2, "big") + tail
                if dup:
                    head = bytes((head[0] | 8,)) + head[1:]
            went = client.send_bytes(head)
        if not went:
            self._common.drop("too_large_for_client")
        return went

    def _put(self, packet_id: int, outgoing: Outgoing) -> None:
        self._inflight = self._inflight or {}
        self._inflight[packet_id] = outgoing

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % LAST_PACKET_ID + 1
            if self._last_id not in self._inflight and (
                not self._recalled or self._last_id not in self._recalled.values()
            ):
                return self._last_id


def _packet(outgoing: Outgoing, message: MqttMessage, packet_id: int, dup: bool) -> Publish:
    properties = _with_identifiers(outgoing, message)
    qos, retain = outgoing.qos, outgoing.retain
    return Publish(message.topic, message.payload, qos, retain, dup, packet_id, properties)


def _with_identifiers(outgoing: Outgoing, message: MqttMessage) -> Properties:
    if not outgoing.identifiers:
        return message.properties
    return {**message.properties, "subscription_identifier": list(outgoing.identifiers)}


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()
