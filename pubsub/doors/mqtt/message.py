"""MQTT messages as events of a camcast network, and MQTT's topic names as topics.

`soccer/italy` is the topic `/soccer/italy`. What a level of a topic cannot hold (a star, white space at its
ends, characters that are not printable) is written `%` and the hexadecimal digits of its UTF-8 bytes, a `%`
too; an empty level is a single `%`.

What an MQTT client publishes travels as data with one key, `camcast-mqtt`; `message_in` reads it. Data that a
Python program publishes reaches MQTT clients as a payload: bytes as they are, text as UTF-8, anything else as
JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from overlay.topic_name import TopicNameError, check_topic_name
from pubsub.doors.mqtt.packets import MqttError, Publish, Reason
from pubsub.doors.mqtt.properties import Properties
from pubsub.text import as_json_data

_KEY = "camcast-mqtt"
_ESCAPED = re.compile(r"(?:%[0-9A-F]{2})+")
_SENDER_BYTES = 8
_TRAVELLING = {
    "payload_format_indicator": int,
    "message_expiry_interval": int,
    "content_type": str,
    "response_topic": str,
    "correlation_data": bytes,
    "user_property": list,
}
"""Properties that go from the publisher to the subscribers (section 3.3.2.3), and their types."""


@dataclass(frozen=True, slots=True)
class MqttMessage:
    """What was published, as the network carries it."""

    topic: str
    """The topic as MQTT writes it."""
    payload: bytes
    qos: int = 2
    """As it was published; 2 for what Python programs publish, so that a subscription's own QoS counts."""
    retain: bool = False
    sender: bytes = b""
    """Tells which client published it, so that it need not be sent there (No Local)."""
    properties: Properties = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """The data of the event that carries the message."""
        flags = self.qos | self.retain << 2
        return {_KEY: [self.payload, flags, self.sender, self.properties]}

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
    if isinstance(data, dict) and data.keys() == {_KEY}:
        return _read(name, data[_KEY])
    return MqttMessage(name, _payload(data))


def _read(name: str, parts: Any) -> MqttMessage | None:
    """Peers write what they like: everything is checked."""
    if not isinstance(parts, list) or [type(part) for part in parts] != [bytes, int, bytes, dict]:
        return None
    payload, flags, sender, properties = parts
    if not 0 <= flags <= 7 or flags & 3 == 3 or len(sender) not in (0, _SENDER_BYTES):
        return None
    checked: Properties = {}
    for key, value in properties.items():
        if key not in _TRAVELLING or type(value) is not _TRAVELLING[key]:
            return None
        if type(value) is int and not 0 <= value < 1 << (1 if key.startswith("payload") else 32):
            return None
        checked[key] = value
    pairs = checked.get("user_property", [])
    if not all(
        isinstance(pair, list) and [type(one) for one in pair] == [str, str] for pair in pairs
    ):
        return None
    if "user_property" in checked:
        checked["user_property"] = [tuple(pair) for pair in pairs]
    return MqttMessage(name, payload, flags & 3, bool(flags & 4), sender, checked)


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
