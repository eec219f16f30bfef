"""The packets of MQTT 3.1.1 and 5.0: from bytes to objects and back, without I/O.

Both directions of every packet type are here, so that a test can play the client. A packet that breaks a
rule of the specification raises `MqttError` with the reason code that the client is to be told; section
numbers are those of MQTT 5.0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar

from overlay.errors import CamcastError
from pubsub.doors.mqtt.properties import (
    Cursor,
    Properties,
    pack_binary,
    pack_length,
    pack_properties,
    pack_text,
    read_properties,
    read_text,
)

V311, V5 = 4, 5
"""Protocol levels."""

LONGEST_KNOWN = 258
"""Bytes of a topic name, and characters of a filter, up to which they are remembered: longer names are
refused."""

LARGEST_PACKET = 1 + 4 + 268_435_455
"""Bytes of the longest packet that MQTT can write down."""


class Reason(IntEnum):
    """Reason codes (section 2.4) that this side uses or looks at."""

    SUCCESS = 0x00
    GRANTED_1 = 0x01
    GRANTED_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_CREDENTIALS = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT_INVALID = 0x99


class MqttError(CamcastError):
    """A client broke a rule of MQTT; `reason` is what it is told, where its version can be told."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def malformed(what: str) -> MqttError:
    return MqttError(Reason.MALFORMED, what)


def violation(what: str) -> MqttError:
    return MqttError(Reason.PROTOCOL_ERROR, what)


@dataclass(frozen=True, slots=True)
class Will:
    """What is published for a client that goes without saying so."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connect:
    code: ClassVar[int] = 1
    client_id: str
    clean_start: bool = True
    keep_alive: int = 0
    """Seconds; 0 for no limit."""
    version: int = V5
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnAck:
    code: ClassVar[int] = 2
    session_present: bool
    reason: int
    properties: Properties = field(default_factory=dict)


# A frozen object takes four times as long to make: what comes with each message is not to be changed either.
@dataclass(slots=True)
class Publish:
    code: ClassVar[int] = 3
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    """0 with QoS 0, which has none."""
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP: a step in the delivery of one message."""

    code: int
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class Asked:
    """One topic filter of a SUBSCRIBE packet, with its options (section 3.8.3.1)."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0

    @property
    def options(self) -> int:
        """The byte behind the filter."""
        flags = self.no_local << 2 | self.retain_as_published << 3
        return self.qos | flags | self.retain_handling << 4

    @classmethod
    def of(cls, filter: str, options: int) -> Asked:
        """`MqttError` when the options make no sense. Clients that ask for the same share it."""
        known = len(filter) <= LONGEST_KNOWN
        return _known_asked(filter, options) if known else cls._of(filter, options)

    @classmethod
    def _of(cls, filter: str, options: int) -> Asked:
        if options & 0xC0 or options & 3 == 3:
            raise malformed("the options of a subscription make no sense")
        if options >> 4 == 3:
            raise violation("the retain handling of a subscription is 0, 1 or 2")
        return cls(filter, options & 3, bool(options & 4), bool(options & 8), options >> 4)


_known_asked = lru_cache(maxsize=4096)(Asked._of)


@dataclass(frozen=True, slots=True)
class Subscribe:
    code: ClassVar[int] = 8
    packet_id: int
    asked: tuple[Asked, ...]
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reasons:
    """SUBACK or UNSUBACK: a reason code for each filter."""

    code: int
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = field(default_factory=dict)


SUBACK, UNSUBACK = 9, 11


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    code: ClassVar[int] = 10
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ping:
    """PINGREQ or PINGRESP."""

    code: int


PINGREQ, PINGRESP = 12, 13


@dataclass(frozen=True, slots=True)
class Disconnect:
    code: ClassVar[int] = 14
    reason: int = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Auth:
    code: ClassVar[int] = 15
    reason: int = Reason.SUCCESS
    properties: Properties = field(default_factory=dict)


Packet = (
    Connect | ConnAck | Publish | Ack | Subscribe | Reasons | Unsubscribe | Ping | Disconnect | Auth
)

_FLAGS = {PUBREL: 2, Subscribe.code: 2, Unsubscribe.code: 2}
"""The low four bits of a packet's first byte; 0 for all others but PUBLISH."""

_ACKS = frozenset(code << 4 | _FLAGS.get(code, 0) for code in (PUBACK, PUBREC, PUBREL, PUBCOMP))
"""The first bytes of acknowledgements."""

_pack_ack = struct.Struct(">BBH").pack


def plain_ack(code: int, packet_id: int) -> bytes:
    """An acknowledgement without a reason, which is what nearly all are."""
    return _pack_ack(code << 4 | (2 if code == PUBREL else 0), 2, packet_id)


class Decoder:
    """Cuts a stream of bytes into packets. A CONNECT packet settles the version; `version` may be set too."""

    __slots__ = (
        "_buffer",
        "_largest",
        "version",
    )

    def __init__(self, largest: int = LARGEST_PACKET, version: int = V5) -> None:
        self.version = version
        self._largest = largest
        self._buffer: bytearray | None = None
        """None while nothing waits."""

    @property
    def waiting(self) -> int:
        """Bytes of a packet that has not come whole."""
        return 0 if self._buffer is None else len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Packet]:
        """The packets that are complete now; `MqttError` at the first that cannot be one."""
        packets: bytes | bytearray = data  # what comes whole is not copied
        if self._buffer is not None:
            self._buffer += data
            packets = self._buffer
        at, size = 0, len(packets)
        try:
            while at + 1 < size:
                start, stop = _body(packets, at, self._largest)
                if not 0 < stop <= size:
                    break
                packet = read_packet(packets[at], bytes(packets[start:stop]), self.version)
                if type(packet) is Connect:
                    self.version = packet.version
                at = stop
                yield packet
        finally:
            if at == size:
                self._buffer = None
            elif self._buffer is None:
                self._buffer = bytearray(packets[at:])
            else:
                del self._buffer[:at]


def _body(packets: bytes | bytearray, at: int, largest: int) -> tuple[int, int]:
    """Where the body of the packet at this place begins and ends; (0, 0) when its length has not come."""
    length = packets[at + 1]
    start = at + 2
    if length & 0x80:
        length &= 0x7F
        for shift in (7, 14, 21):
            if len(packets) <= start:
                return 0, 0
            byte = packets[start]
            start += 1
            length |= (byte & 0x7F) << shift
            if not byte & 0x80:
                if not byte:
                    raise malformed("a packet's length is written with more bytes than it needs")
                break
        else:
            raise malformed("a packet's length has more than four bytes")
    if start - at + length > largest:
        what = f"a packet has {start - at + length} bytes, and {largest} is the limit"
        raise MqttError(Reason.PACKET_TOO_LARGE, what)
    return start, start + length


def read_packet(first: int, body: bytes, version: int) -> Packet:
    """The packet whose first byte and body these are."""
    if first in _ACKS and len(body) == 2 and any(body):
        return Ack(first >> 4, body[0] << 8 | body[1])
    code, flags = first >> 4, first & 15
    try:
        if code == Publish.code:
            return _read_publish(flags, body, version)
        if flags != _FLAGS.get(code, 0):
            raise malformed(f"a packet of type {code} has the flags {flags}")
        cursor = Cursor(body)
        reader = _READERS.get(code)
        if reader is None or (code == Auth.code and version != V5):
            raise malformed(f"there is no packet of type {code}")
        packet = reader(code, cursor, version)
        cursor.end()
        return packet
    except (IndexError, ValueError) as error:
        raise malformed(f"a packet of type {code} is wrong: {error}") from None


def _read_connect(code: int, cursor: Cursor, version: int) -> Connect:
    if cursor.binary() != b"MQTT":
        raise MqttError(Reason.UNSUPPORTED_VERSION, "the protocol is not called MQTT")
    version = cursor.byte()
    if version not in (V311, V5):
        raise MqttError(Reason.UNSUPPORTED_VERSION, f"there is no protocol level {version} here")
    flags, keep_alive = cursor.byte(), cursor.number(2)
    has_will, will_qos = bool(flags & 4), flags >> 3 & 3
    if flags & 1:
        raise malformed("the reserved flag of CONNECT is set")
    if will_qos == 3 or (not has_will and flags & 0x38):
        raise malformed("the flags of the will make no sense")
    if version == V311 and flags & 0xC0 == 0x40:
        raise malformed("a password without a user name")
    properties = read_properties(cursor, Connect.code, version)
    client_id = cursor.text()
    will = None
    if has_will:
        will_properties = read_properties(cursor, 0, version)
        will = Will(cursor.text(), cursor.binary(), will_qos, bool(flags & 0x20), will_properties)
        check_topic(will.topic)
    username = cursor.text() if flags & 0x80 else None
    password = cursor.binary() if flags & 0x40 else None
    return Connect(
        client_id, bool(flags & 2), keep_alive, version, username, password, will, properties
    )


def _read_connack(code: int, cursor: Cursor, version: int) -> ConnAck:
    flags = cursor.byte()
    if flags > 1:
        raise malformed("the reserved flags of CONNACK are set")
    return ConnAck(bool(flags), cursor.byte(), read_properties(cursor, code, version))


def _read_publish(flags: int, body: bytes, version: int) -> Publish:
    qos, dup = flags >> 1 & 3, bool(flags & 8)
    if qos == 3 or (dup and not qos):
        raise malformed("the flags of PUBLISH make no sense")
    at = 2 + (body[0] << 8 | body[1])
    if at > len(body):
        raise ValueError("it ends too early")
    raw = body[2:at]
    topic = _known_topic(raw) if at <= LONGEST_KNOWN else _topic(raw)
    packet_id = 0
    if qos:
        packet_id = body[at] << 8 | body[at + 1]
        at += 2
        if not packet_id:
            raise violation("a packet identifier is 0")
    properties: Properties = {}
    if version == V5:
        if body[at]:
            cursor = Cursor(body, at)
            properties = read_properties(cursor, Publish.code, version)
            at = cursor.place
        else:
            at += 1
    if not topic and not properties.get("topic_alias"):
        check_topic(topic)
    return Publish(topic, body[at:], qos, bool(flags & 1), dup, packet_id, properties)


def _topic(raw: bytes) -> str:
    """A topic name, or nothing where an alias stands for it."""
    topic = read_text(raw)
    if topic:
        check_topic(topic)
    return topic


_known_topic = lru_cache(maxsize=4096)(_topic)


def _read_ack(code: int, cursor: Cursor, version: int) -> Ack:
    packet_id = _packet_id(cursor)
    if version != V5 or cursor.at_end:
        return Ack(code, packet_id)
    reason = cursor.byte()
    properties = {} if cursor.at_end else read_properties(cursor, code, version)
    return Ack(code, packet_id, reason, properties)


def _read_subscribe(code: int, cursor: Cursor, version: int) -> Subscribe:
    packet_id = _packet_id(cursor)
    properties = read_properties(cursor, code, version)
    asked = []
    while not cursor.at_end:
        text, options = cursor.text(), cursor.byte()
        if version != V5 and options & 0xFC:
            raise malformed("the options of a subscription make no sense")
        asked.append(Asked.of(text, options))
    if not asked:
        raise violation("a SUBSCRIBE packet without a topic filter")
    return Subscribe(packet_id, tuple(asked), properties)


def _read_unsubscribe(code: int, cursor: Cursor, version: int) -> Unsubscribe:
    packet_id = _packet_id(cursor)
    properties = read_properties(cursor, code, version)
    filters = []
    while not cursor.at_end:
        filters.append(cursor.text())
    if not filters:
        raise violation("an UNSUBSCRIBE packet without a topic filter")
    return Unsubscribe(packet_id, tuple(filters), properties)


def _read_reasons(code: int, cursor: Cursor, version: int) -> Reasons:
    packet_id = _packet_id(cursor)
    properties = read_properties(cursor, code, version)
    return Reasons(code, packet_id, tuple(cursor.rest()), properties)


def _read_ping(code: int, cursor: Cursor, version: int) -> Ping:
    return Ping(code)


def _read_disconnect(code: int, cursor: Cursor, version: int) -> Disconnect | Auth:
    kind = Disconnect if code == Disconnect.code else Auth
    if version != V5 or cursor.at_end:
        return kind()
    reason = cursor.byte()
    if kind is Auth and reason not in _AUTH_REASONS:
        raise malformed(f"an AUTH packet has the reason {reason}")
    return kind(reason, {} if cursor.at_end else read_properties(cursor, code, version))


_AUTH_REASONS = (Reason.SUCCESS, Reason.CONTINUE_AUTHENTICATION, Reason.RE_AUTHENTICATE)

_READERS: dict[int, Callable[[int, Cursor, int], Packet]] = {
    Connect.code: _read_connect,
    ConnAck.code: _read_connack,
    PUBACK: _read_ack,
    PUBREC: _read_ack,
    PUBREL: _read_ack,
    PUBCOMP: _read_ack,
    Subscribe.code: _read_subscribe,
    SUBACK: _read_reasons,
    Unsubscribe.code: _read_unsubscribe,
    UNSUBACK: _read_reasons,
    PINGREQ: _read_ping,
    PINGRESP: _read_ping,
    Disconnect.code: _read_disconnect,
    Auth.code: _read_disconnect,
}


def _packet_id(cursor: Cursor) -> int:
    number = cursor.number(2)
    if not number:
        raise violation("a packet identifier is 0")
    return number


def check_topic(topic: str) -> None:
    """A topic name: not empty, without wildcards."""
    if not topic or "+" in topic or "#" in topic:
        raise MqttError(Reason.TOPIC_NAME_INVALID, f"{topic!r:.60} is not a topic name")


def write_packet(packet: Packet, version: int) -> bytes:
    """The packet as bytes. Properties are left out for MQTT 3.1.1, which has none."""
    if type(packet) is Ack and not packet.reason and not packet.properties:
        return plain_ack(packet.code, packet.packet_id)
    flags = _FLAGS.get(packet.code, 0)
    match packet:
        case Publish():
            flags = packet.dup << 3 | packet.qos << 1 | packet.retain
            number = packet.packet_id.to_bytes(2, "big") if packet.qos else b""
            head = pack_text(packet.topic) + number
            body = head + pack_properties(packet.properties, packet.code, version) + packet.payload
        case Ack():
            body = _write_ack(packet, version)
        case Connect():
            body = _write_connect(packet)
        case ConnAck():
            body = bytes((packet.session_present, packet.reason))
            body += pack_properties(packet.properties, packet.code, version)
        case Subscribe():
            body = packet.packet_id.to_bytes(2, "big")
            body += pack_properties(packet.properties, packet.code, version)
            body += b"".join(map(_write_asked, packet.asked))
        case Reasons():
            body = packet.packet_id.to_bytes(2, "big")
            body += pack_properties(packet.properties, packet.code, version)
            if version == V5 or packet.code == SUBACK:
                body += bytes(packet.reasons)
        case Unsubscribe():
            body = packet.packet_id.to_bytes(2, "big")
            body += pack_properties(packet.properties, packet.code, version)
            body += b"".join(map(pack_text, packet.filters))
        case Ping():
            body = b""
        case _:
            body = b""
            if version == V5 and (packet.reason or packet.properties):
                body = bytes((packet.reason,))
                body += pack_properties(packet.properties, packet.code, version)
    return bytes((packet.code << 4 | flags,)) + pack_length(len(body)) + body


_known_name = lru_cache(maxsize=4096)(pack_text)
"""Topic names as they stand in a packet; those of the network have 255 bytes at most, a few are escaped."""


def publish_parts(
    topic: str, payload: bytes, qos: int, retain: bool, properties: Properties, version: int
) -> tuple[bytes, bytes]:
    """A PUBLISH packet before and behind its packet id, which many clients have in common; with QoS 0, which
    has no packet id, all of it is before."""
    head = _known_name(topic)
    tail = payload
    if version == V5:
        tail = pack_properties(properties, Publish.code, version) + payload
    first = Publish.code << 4 | qos << 1 | retain
    if not qos:
        return b"%c%b%b%b" % (first, pack_length(len(head) + len(tail)), head, tail), b""
    return b"%c%b%b" % (first, pack_length(len(head) + 2 + len(tail)), head), tail


def _write_ack(packet: Ack, version: int) -> bytes:
    body = packet.packet_id.to_bytes(2, "big")
    if version == V5 and (packet.reason or packet.properties):
        body += bytes((packet.reason,))
        if packet.properties:
            body += pack_properties(packet.properties, packet.code, version)
    return body


def _write_asked(asked: Asked) -> bytes:
    return pack_text(asked.filter) + bytes((asked.options,))


def _write_connect(packet: Connect) -> bytes:
    will, version = packet.will, packet.version
    flags = packet.clean_start << 1
    body = pack_properties(packet.properties, packet.code, version) + pack_text(packet.client_id)
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
        body += pack_properties(will.properties, 0, version)
        body += pack_text(will.topic) + pack_binary(will.payload)
    if packet.username is not None:
        flags |= 0x80
        body += pack_text(packet.username)
    if packet.password is not None:
        flags |= 0x40
        body += pack_binary(packet.password)
    head = pack_binary(b"MQTT") + bytes((version, flags)) + packet.keep_alive.to_bytes(2, "big")
    return head + body
