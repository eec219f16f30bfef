"""An MQTT client that shows every packet and sends what no library would. It has a codec of its own: nothing
of the door's is trusted here."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14
BYTE, TWO, FOUR, VARIABLE, TEXT, PAIR = range(6)
KINDS = {
    **dict.fromkeys((1, 23, 25, 36, 37, 40, 41, 42), BYTE),
    **dict.fromkeys((19, 33, 34, 35), TWO),
    **dict.fromkeys((2, 17, 24, 39), FOUR),
    **dict.fromkeys((3, 8, 9, 18, 21, 22, 26, 28, 31), TEXT),
    11: VARIABLE,
    38: PAIR,
}
"""The kind of each property of MQTT 5.0, by its number."""
EXPIRY, IDENTIFIER, SESSION, WILL_DELAY, MAXIMUM, ALIAS = 2, 11, 17, 24, 33, 35


def variable(number: int) -> bytes:
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("!H", len(raw)) + raw


def properties(values: dict[int, int]) -> bytes:
    shapes = {BYTE: "!B", TWO: "!H", FOUR: "!I"}
    parts = [
        bytes([name])
        + (variable(value) if KINDS[name] == VARIABLE else struct.pack(shapes[KINDS[name]], value))
        for name, value in values.items()
    ]
    return variable(len(b"".join(parts))) + b"".join(parts)


@dataclass
class Packet:
    kind: int
    flags: int
    body: bytes
    at: int = 0
    properties: dict[int, list[object]] = field(default_factory=dict)
    topic: str = ""
    id: int = 0
    payload: bytes = b""
    code: int = 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.body[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def variable(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def read_properties(self) -> None:
        if self.at >= len(self.body):
            return
        end = self.variable() + self.at
        while self.at < end:
            name = self.number(1)
            value: object
            match KINDS[name]:
                case 3:
                    value = self.variable()
                case 4:
                    value = self.take(self.number(2))
                case 5:
                    value = (self.take(self.number(2)), self.take(self.number(2)))
                case kind:
                    value = self.number((1, 2, 4)[kind])
            self.properties.setdefault(name, []).append(value)

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        return bool(self.flags & 1)

    @property
    def again(self) -> bool:
        return bool(self.flags & 8)

    def parse(self) -> Packet:
        match self.kind:
            case 2:
                self.flags, self.code = self.number(1), self.number(1)
                self.read_properties()
            case 3:
                self.topic = self.take(self.number(2)).decode()
                self.id = self.number(2) if self.qos else 0
                self.read_properties()
                self.payload = self.body[self.at :]
            case 4 | 5 | 6 | 7:
                self.id = self.number(2)
                self.code = self.number(1) if len(self.body) > 2 else 0
            case 9 | 11:
                self.id = self.number(2)
                self.read_properties()
                self.payload = self.body[self.at :]
            case 14:
                self.code = self.number(1) if self.body else 0
        return self


class Raw:
    """A client of MQTT 5.0 that does nothing by itself: no acknowledgement, no ping, no reconnecting."""

    def __init__(
        self,
        port: int,
        name: str,
        *,
        clean: bool = False,
        keep_alive: int = 0,
        will: tuple[str, str, int] | None = None,
        will_properties: dict[int, int] | None = None,
        **options: dict[int, int],
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.buffer = b""
        self.last_id = 0
        flags = 2 * clean
        payload = text(name)
        if will is not None:
            topic, message, qos = will
            flags |= 4 | qos << 3
            payload += properties(will_properties or {}) + text(topic) + text(message)
        head = text("MQTT") + struct.pack("!BBH", 5, flags, keep_alive)
        self.send(CONNECT, 0, head + properties(options.get("properties", {})) + payload)
        answer = self.read()
        assert answer is not None
        assert (answer.kind, answer.code) == (CONNACK, 0)
        self.present = bool(answer.flags & 1)
        self.connack = answer

    def __enter__(self) -> Raw:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, kind: int, flags: int, body: bytes) -> None:
        self.socket.sendall(bytes([kind << 4 | flags]) + variable(len(body)) + body)

    def read(self, within: float = 10) -> Packet | None:
        """The next packet; None when nothing comes `within` so many seconds."""
        until = time.monotonic() + within
        while (packet := self._cut()) is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                more = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not more:
                raise EOFError
            self.buffer += more
        return packet.parse()

    def _cut(self) -> Packet | None:
        value = 0
        for at in range(1, min(len(self.buffer), 5)):
            value |= (self.buffer[at] & 127) << 7 * (at - 1)
            if self.buffer[at] < 128:
                if len(self.buffer) < at + 1 + value:
                    return None
                head, body = self.buffer[0], self.buffer[at + 1 : at + 1 + value]
                self.buffer = self.buffer[at + 1 + value :]
                return Packet(head >> 4, head & 15, body)
        return None

    def expect(self, kind: int, within: float = 10) -> Packet:
        packet = self.read(within)
        assert packet is not None, f"nothing came instead of {kind}"
        assert packet.kind == kind, packet
        return packet

    def ended(self, within: float = 10) -> int | None:
        """The reason of the DISCONNECT that comes, None when the connection ends without one."""
        try:
            return self.expect(DISCONNECT, within).code
        except (EOFError, ConnectionResetError):
            return None

    def nothing(self, within: float = 0.7) -> None:
        packet = self.read(within)
        assert packet is None, packet

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def subscribe(self, *filters: str, options: int = 2, **more: dict[int, int]) -> list[int]:
        body = struct.pack("!H", self.next_id()) + properties(more.get("properties", {}))
        self.send(SUBSCRIBE, 2, body + b"".join(text(one) + bytes([options]) for one in filters))
        early = []
        while (packet := self.read()) is not None and packet.kind != SUBACK:
            early.append(packet)
        assert packet is not None
        assert not early, early
        return list(packet.payload)

    def publish(
        self,
        topic: str,
        message: str,
        qos: int = 0,
        *,
        id: int = 0,
        again: bool = False,
        retain: bool = False,
        **more: dict[int, int],
    ) -> int:
        """Sends a PUBLISH, and waits for nothing."""
        number = id or (self.next_id() if qos else 0)
        body = text(topic) + (struct.pack("!H", number) if qos else b"")
        body += properties(more.get("properties", {})) + message.encode()
        self.send(PUBLISH, again << 3 | qos << 1 | retain, body)
        return number

    def published(self, topic: str, message: str, qos: int = 1, **more: object) -> None:
        """Publishes, and waits until the door has taken it over."""
        number = self.publish(topic, message, qos, **more)  # type: ignore[arg-type]
        if qos == 1:
            assert self.expect(PUBACK).id == number
        elif qos == 2:
            assert self.expect(PUBREC).id == number
            self.answer(PUBREL, number)
            assert self.expect(PUBCOMP).id == number

    def answer(self, kind: int, number: int) -> None:
        self.send(kind, 2 if kind == PUBREL else 0, struct.pack("!H", number))

    def take(self, count: int, within: float = 20) -> list[str]:
        """The payloads of the next `count` messages, each acknowledged as its QoS asks."""
        found: list[str] = []
        while len(found) < count:
            packet = self.read(within)
            assert packet is not None, (found, count)
            if packet.kind == PUBLISH:
                found.append(packet.payload.decode())
                if packet.qos:
                    self.answer(PUBACK if packet.qos == 1 else PUBREC, packet.id)
            elif packet.kind == PUBREL:
                self.answer(PUBCOMP, packet.id)
            else:
                raise AssertionError(packet)
        return found

    def disconnect(self, code: int = 0) -> None:
        self.send(DISCONNECT, 0, bytes([code]))
        self.socket.close()
