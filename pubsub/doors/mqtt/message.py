"""MQTT messages as events of a camcast network, and MQTT's topic names as topics.

`soccer/italy` is the topic `/soccer/italy`. What a level of a topic cannot hold (a star, white space at its
ends, characters that are not printable) is written `%` and the hexadecimal digits of its UTF-8 bytes, a `%`
too; an empty level is a single `%`.

What an MQTT client publishes travels as bytes that begin with `MARK`, and so do bytes that an HTTP client
publishes with a type; `message_in` reads them. Other data
that a Python program publishes reaches MQTT clients as a payload: bytes as they are, text as UTF-8, anything
else as JSON.

Behind the mark come one byte (QoS, retained, whether a sender and a time follow), the sender (8 bytes), when
it was published (8 bytes, milliseconds since 1970; only where it may expire), the properties as in a packet
of MQTT 5.0, and the payload. Bytes are the data that a node packs, checks and unpacks fastest.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from overlay.topic_name import TopicNameError, check_topic_name
from pubsub.doors.mqtt.packets import V5, MqttError, Publish, Reason
from pubsub.doors.mqtt.properties import Cursor, Properties, pack_properties, read_properties
from pubsub.text import as_json_data

MARK = b"\xffMQTT\0"
"""How the data of a client's message begins. No text does, since 0xFF is not a byte of UTF-8."""

_FLAGS = len(MARK)
_RETAIN, _SENDER, _TIME = 4, 8, 16
_TIME_BYTES = 8
_ESCAPED = re.compile(r"(?:%[0-9A-F]{2})+")
_SENDER_BYTES = 8
_TRAVELLING = (
    "payload_format_indicator",
    "message_expiry_interval",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_property",
)
"""Properties that go from the publisher to the subscribers (section 3.3.2.3)."""


@dataclass(slots=True)
class MqttMessage:
    """What was published, as the network carries it; not to be changed. (A frozen one takes four times as
    long to make, and one is made for each message.)"""

    topic: str
    """The topic as MQTT writes it."""
    payload: bytes
    qos: int = 2
    """As it was published; 2 for what Python programs publish, so that a subscription's own QoS counts."""
    retain: bool = False
    sender: bytes = b""
    """Tells which client published it, so that it need not be sent there (No Local)."""
    properties: Properties = field(default_factory=dict)

    published_at: float = 0.0
    """When it was published by its door's clock, seconds since 1970; 0 where it does not expire."""

    def to_data(self, now: float = 0.0) -> bytes:
        """The data of the event that carries the message, which is published `now`, in seconds since 1970."""
        flags = self.qos | (_RETAIN if self.retain else 0) | (_SENDER if self.sender else 0)
        properties = self.properties
        if not properties:
            return b"%b%c%b\0%b" % (MARK, flags, self.sender, self.payload)
        at = b""
        if "message_expiry_interval" in properties:
            flags |= _TIME
            at = int(1000 * now).to_bytes(_TIME_BYTES, "big")
        packed = pack_properties(properties, Publish.code, V5)
        return b"%b%c%b%b%b%b" % (MARK, flags, self.sender, at, packed, self.payload)

    @classmethod
    def published(cls, packet: Publish, topic: str, sender: bytes) -> MqttMessage:
        given = packet.properties
        properties = {name: given[name] for name in _TRAVELLING if name in given} if given else {}
        return cls(topic, packet.payload, packet.qos, packet.retain, sender, properties)

    def aged(self, seconds: float) -> MqttMessage | None:
        """The message after it has waited; None when it has expired (section 3.3.2.3.3)."""
        lifetime = self.properties.get("message_expiry_interval")
        if lifetime is None:
            return self
        left = lifetime - int(seconds)
        if left <= 0:
            return None
        return replace(self, properties={**self.properties, "message_expiry_interval": left})


def message_in(topic: str, data: Any) -> MqttMessage | None:
    """The message that an event of this topic is to MQTT clients; None when they cannot be given it."""
    name = mqtt_name(topic)
    if name is None:
        return None
    if type(data) is bytes and data.startswith(MARK):
        return _read(name, data)
    return MqttMessage(name, _payload(data))


def _read(name: str, data: bytes) -> MqttMessage | None:
    """Peers write what they like: everything is checked."""
    try:
        flags, at = data[_FLAGS], _FLAGS + 1
        if flags & 3 == 3 or flags > 31:
            return None
        sender = b""
        if flags & _SENDER:
            sender = data[at : at + _SENDER_BYTES]
            at += _SENDER_BYTES
        published_at = 0.0
        if flags & _TIME:
            published_at = int.from_bytes(data[at : at + _TIME_BYTES], "big") / 1000
            at += _TIME_BYTES
        if not data[at]:
            payload = data[at + 1 :]
            return MqttMessage(name, payload, flags & 3, bool(flags & _RETAIN), sender, {})
        cursor = Cursor(data, at)
        properties = read_properties(cursor, Publish.code, V5)
    except (IndexError, ValueError):
        return None
    if not all(one in _TRAVELLING for one in properties):
        return None
    retain = bool(flags & _RETAIN)
    return MqttMessage(name, cursor.rest(), flags & 3, retain, sender, properties, published_at)


def shown_data(topic: str, data: Any) -> Any:
    """An event's data as people see it: the payload of an MQTT client's message as JSON, or text, if it is
    that; any other data as it is."""
    if type(data) is not bytes or not data.startswith(MARK):
        return data
    message = message_in(topic, data)
    if message is None or not message.payload:
        return data
    shown: Any = message.payload
    with suppress(ValueError, RecursionError):
        shown = message.payload.decode()
        shown = json.loads(shown)
    return shown


def content_type_of(topic: str, data: Any) -> str:
    """The content type that an MQTT or HTTP client has given with its bytes; empty where none has."""
    if type(data) is not bytes or not data.startswith(MARK):
        return ""
    message = message_in(topic, data)
    return "" if message is None else str(message.properties.get("content_type", ""))


def _payload(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode(errors="replace")
    return json.dumps(as_json_data(data)).encode()


# A client publishes to few names, and each message asks for them several times.
_remembered = lru_cache(maxsize=4096)


@_remembered
def sender_of(client_id: str) -> bytes:
    """What travels with a message to tell who published it; it does not tell the client's id."""
    return hashlib.blake2s(client_id.encode(), digest_size=_SENDER_BYTES).digest()


@_remembered
def topic_of(name: str) -> str:
    """The camcast topic of an MQTT topic name, or of the levels before a filter's first wildcard.

    `MqttError` when it is longer, or deeper, than a topic may be."""
    path = "/" + "/".join(_escape(level) for level in name.split("/")) if name else "/"
    try:
        return check_topic_name(path)
    except TopicNameError as error:
        raise MqttError(Reason.TOPIC_NAME_INVALID, str(error)) from None


@_remembered
def mqtt_name(topic: str) -> str | None:
    """The MQTT name of a topic; None for the root, which has none, and for one that MQTT cannot write."""
    if topic == "/":
        return None
    name = "/".join(_unescape(level) for level in topic[1:].split("/"))
    return None if "+" in name or "#" in name or "\0" in name else name


def _escape(level: str) -> str:
    if not level:
        return "%"
    ends = {0, len(level) - 1}
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode())
        if char in "%*" or not char.isprintable() or (place in ends and char.isspace())
        else char
        for place, char in enumerate(level)
    )


def _unescape(level: str) -> str:
    if level == "%":
        return ""
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), level
    )
