"""What the datagrams of a virtual network carry: one name for each, and how many of each name were sent.

A datagram may hold several frames and messages. It is counted once, under the first message in it, and under
the channel's own packet (`open`, `ack`...) only where it carries no message.
"""

from __future__ import annotations

from collections import Counter

from overlay.channel.packet import BUNDLE, PacketType, Refused, decode_bundle
from overlay.dht.letter import unpack_letter
from overlay.transport.frame import HEADER_BYTES, Dropped, Kind, split_frames
from overlay.virtual.rules import Packet
from overlay.wire import WireError, decode


def name_of(datagram: bytes) -> str:
    """The name of what an unsealed datagram carries."""
    try:
        frames = split_frames(datagram, HEADER_BYTES)
    except Dropped:
        return "malformed"
    names = [_name_of_frame(kind, body) for kind, body in frames]
    messages = [name for name in names if not name.startswith("channel ")]
    return (messages or names or ["empty"])[0]


def _name_of_frame(kind: int, body: bytes) -> str:
    try:
        if kind == Kind.CHANNEL:
            return _name_of_packet(body)
        payload = unpack_letter(body).payload if kind == Kind.DHT else body
        return type(decode(payload)).__name__
    except (WireError, Refused):
        return "malformed"


def _name_of_packet(packet: bytes) -> str:
    kind = PacketType(packet[0])
    if kind is not PacketType.BUNDLE:
        return f"channel {kind.name.lower()}"
    messages = decode_bundle(packet[BUNDLE.size :])
    return type(decode(messages[0])).__name__ if messages else "channel bundle"


class DatagramCount:
    """A rule of the virtual network that counts what is sent, by name (see `Network.rule`)."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()

    def __call__(self, packet: Packet) -> None:
        self.by_name[name_of(packet.data)] += 1

    def take(self) -> Counter[str]:
        """What was counted since the last call."""
        taken, self.by_name = self.by_name, Counter()
        return taken
