"""The data types and properties of MQTT 5.0 (sections 1.5 and 2.2.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

Properties = dict[str, Any]
"""Properties by name; the values of those that may come several times are lists."""


class Cursor:
    """Reads one packet's body from front to back; `ValueError` or `IndexError` when it cannot be read."""

    __slots__ = ("_body", "place")

    def __init__(self, body: bytes, place: int = 0) -> None:
        self._body = body
        self.place = place
        """Where it goes on reading."""

    @property
    def at_end(self) -> bool:
        return self.place == len(self._body)

    def end(self) -> None:
        if not self.at_end:
            raise ValueError("there are bytes behind its end")

    def take(self, size: int) -> bytes:
        begin, self.place = self.place, self.place + size
        if self.place > len(self._body):
            raise ValueError("it ends too early")
        return self._body[begin : self.place]

    def rest(self) -> bytes:
        begin, self.place = self.place, len(self._body)
        return self._body[begin:]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        return read_text(self.binary())

    def length(self) -> int:
        """A variable byte integer, written with as few bytes as it needs."""
        value = 0
        for place in range(4):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                if place and not byte:
                    raise ValueError("a number is written with more bytes than it needs")
                return value
        raise ValueError("a number has more than four bytes")


def read_text(raw: bytes) -> str:
    text = raw.decode()  # strict: neither surrogates nor overlong forms
    if "\0" in text:
        raise ValueError("a text holds the character 0")
    return text


def pack_length(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    packed = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        packed.append(low | (0x80 if value else 0))
        if not value:
            return bytes(packed)


def pack_binary(data: bytes) -> bytes:
    if len(data) > 0xFFFF:
        raise ValueError(f"{len(data)} bytes do not fit into a field of MQTT, which has 65,535")
    return len(data).to_bytes(2, "big") + data


def pack_text(text: str) -> bytes:
    return pack_binary(text.encode())


class _Kind(NamedTuple):
    """How a property is called and written, and where it may stand."""

    name: str
    type: str
    packets: frozenset[int]
    """Codes of packets; 0 is a will."""
    most: int | None = None
    """The largest value."""
    least: int = 0
    many: bool = False


def _kind(name: str, type: str, packets: str, **limits: Any) -> _Kind:
    codes = {"will": 0, "auth": 15, "disconnect": 14, "connect": 1, "connack": 2, "publish": 3}
    codes |= {"puback": 4, "pubrec": 5, "pubrel": 6, "pubcomp": 7, "subscribe": 8, "suback": 9}
    codes |= {"unsubscribe": 10, "unsuback": 11}
    return _Kind(name, type, frozenset(codes[one] for one in packets.split()), **limits)


_ANSWERS = "connack puback pubrec pubrel pubcomp suback unsuback disconnect auth"
_KINDS = {
    0x01: _kind("payload_format_indicator", "byte", "publish will", most=1),
    0x02: _kind("message_expiry_interval", "four", "publish will"),
    0x03: _kind("content_type", "text", "publish will"),
    0x08: _kind("response_topic", "text", "publish will"),
    0x09: _kind("correlation_data", "binary", "publish will"),
    0x0B: _kind("subscription_identifier", "length", "publish subscribe", least=1, many=True),
    0x11: _kind("session_expiry_interval", "four", "connect connack disconnect"),
    0x12: _kind("assigned_client_identifier", "text", "connack"),
    0x13: _kind("server_keep_alive", "two", "connack"),
    0x15: _kind("authentication_method", "text", "connect connack auth"),
    0x16: _kind("authentication_data", "binary", "connect connack auth"),
    0x17: _kind("request_problem_information", "byte", "connect", most=1),
    0x18: _kind("will_delay_interval", "four", "will"),
    0x19: _kind("request_response_information", "byte", "connect", most=1),
    0x1A: _kind("response_information", "text", "connack"),
    0x1C: _kind("server_reference", "text", "connack disconnect"),
    0x1F: _kind("reason_string", "text", _ANSWERS),
    0x21: _kind("receive_maximum", "two", "connect connack", least=1),
    0x22: _kind("topic_alias_maximum", "two", "connect connack"),
    0x23: _kind("topic_alias", "two", "publish", least=1),
    0x24: _kind("maximum_qos", "byte", "connack", most=1),
    0x25: _kind("retain_available", "byte", "connack", most=1),
    0x26: _kind(
        "user_property", "pair", f"{_ANSWERS} connect publish will subscribe unsubscribe", many=True
    ),
    0x27: _kind("maximum_packet_size", "four", "connect connack", least=1),
    0x28: _kind("wildcard_subscription_available", "byte", "connack", most=1),
    0x29: _kind("subscription_identifier_available", "byte", "connack", most=1),
    0x2A: _kind("shared_subscription_available", "byte", "connack", most=1),
}
_IDS = {kind.name: number for number, kind in _KINDS.items()}
_SIZES = {"byte": 1, "two": 2, "four": 4}


def read_properties(cursor: Cursor, packet: int, version: int) -> Properties:
    """The properties of a packet, by name; none in MQTT 3.1.1."""
    if version != 5:
        return {}
    inner = Cursor(cursor.take(cursor.length()))
    found: Properties = {}
    while not inner.at_end:
        kind = _KINDS.get(inner.length())
        if kind is None or packet not in kind.packets:
            raise ValueError("it has a property that does not belong there")
        value = _read(inner, kind.type)
        if isinstance(value, int) and (
            value < kind.least or (kind.most is not None and value > kind.most)
        ):
            raise ValueError(f"its {kind.name} is {value}")
        if kind.many:
            found.setdefault(kind.name, []).append(value)
        elif kind.name in found:
            raise ValueError(f"it has two values of {kind.name}")
        else:
            found[kind.name] = value
    return found


def _read(cursor: Cursor, type: str) -> Any:
    if type in _SIZES:
        return cursor.number(_SIZES[type])
    if type == "length":
        return cursor.length()
    if type == "pair":
        return (cursor.text(), cursor.text())
    return cursor.text() if type == "text" else cursor.binary()


def pack_properties(properties: Properties, packet: int, version: int) -> bytes:
    if version != 5:
        return b""
    if not properties:
        return b"\0"
    packed = bytearray()  # a client may send very many user properties
    for name, value in properties.items():
        number = _IDS[name]
        kind = _KINDS[number]
        for one in value if kind.many else (value,):
            packed.append(number)
            packed += _pack(kind.type, one)
    return pack_length(len(packed)) + packed


def _pack(type: str, value: Any) -> bytes:
    if type in _SIZES:
        return int(value).to_bytes(_SIZES[type], "big")
    if type == "length":
        return pack_length(value)
    if type == "pair":
        return pack_text(value[0]) + pack_text(value[1])
    return pack_text(value) if type == "text" else pack_binary(value)
