"""Whatever bytes arrive: they are refused under a reason or do no harm, and valid traffic still flows."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.channel.packet import ACCEPTANCE, PACKET_HEAD, PROGRESS, PacketType
from overlay.contact import Contact, PeerId
from tests.overlay.channel.faulty_wire import SMALL, Node, Wire

STRANGER = Contact(PeerId(b"s" * 20), "127.0.0.99", 9)


def busy_pair(seed: int) -> tuple[Wire, Node, Node]:
    wire = Wire(seed)
    a, b = wire.nodes
    for number in range(10):
        a.write(b, b"%d" % number + bytes(100 * number))
        b.write(a, b"%d" % number + bytes(100 * number))
    wire.run(2)
    return wire, a, b


def assert_traffic_flows(wire: Wire, a: Node, b: Node) -> None:
    a.write(b, b"still there?")
    wire.run(wire.now + 30)
    assert b.delivered[-1] == b"still there?"
    assert a.outcomes[b"still there?"]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=30), st.booleans())
def test_arbitrary_bytes_of_a_peer_or_a_stranger_do_no_harm(
    packets: list[bytes], known: bool
) -> None:
    wire, a, b = busy_pair(1)
    for packet in packets:
        a.receive(b.contact if known else STRANGER, packet)
    assert_traffic_flows(wire, a, b)


def forged_packets(rng: random.Random, count: int) -> Iterator[bytes]:
    """Well-formed packets of sessions that nobody has."""
    for _ in range(count):
        sessions = rng.getrandbits(32), rng.choice([0, rng.getrandbits(32)])
        kind = rng.choice(list(PacketType))
        if kind == PacketType.ACCEPT:
            yield ACCEPTANCE.pack(kind, *sessions, rng.getrandbits(32))
        elif kind < PacketType.ACK:
            yield PACKET_HEAD.pack(kind, *sessions)
        else:
            numbers = [rng.getrandbits(rng.choice([4, 32])) for _ in range(2)]
            yield PROGRESS.pack(kind, *sessions, *numbers) + rng.randbytes(rng.randrange(200))


def test_forged_packets_of_other_sessions_do_not_touch_the_session() -> None:
    wire, a, b = busy_pair(2)
    for packet in forged_packets(random.Random(2), 5_000):
        a.receive(b.contact, packet)
        a.receive(STRANGER, packet)
    assert_traffic_flows(wire, a, b)
    assert len(a.table) <= 2
    assert [type(event) for event in a.events] == [type(a.events[0])]


def test_packets_altered_on_the_way_raise_nothing_and_keep_memory_bounded() -> None:
    """Without a seal anything may be altered; both ends survive it, and so does memory."""
    rng = random.Random(3)
    wire, a, b = busy_pair(3)
    carry = Wire.carry

    def alter(source: Node, to: Contact, packet: bytes) -> None:
        if rng.random() < 0.3:
            position = rng.randrange(len(packet))
            packet = packet[:position] + bytes([rng.randrange(256)]) + packet[position + 1 :]
        carry(wire, source, to, packet)

    wire.carry = alter  # type: ignore[method-assign, assignment]
    for number in range(300):
        a.write(b, b"%d" % number + bytes(rng.randrange(3_000)))
        b.write(a, b"%d" % number + bytes(rng.randrange(3_000)))
        wire.run(wire.now + 0.5)
    del wire.carry  # type: ignore[method-assign]
    wire.run(wire.now + 2 * SMALL.forget_after)
    assert_traffic_flows(wire, a, b)
