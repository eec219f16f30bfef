"""A storm of malformed packets against the door's core, with honest clients beside it.

    python -m tests.pubsub.doors.mqtt_storm 1000000      # about as many malformed packets, by seed

Each hostile connection sends bytes of chance, or a good CONNECT and then packets of which bytes were changed,
cut off or added. What is looked for: an exception, a client that is not served meanwhile, a message of an
honest client that does not arrive, anything that grows.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V5,
    V311,
    Ack,
    Asked,
    Auth,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
    write_packet,
)
from tests.pubsub.doors.mqtt_hub import Clock, Door

EVERY = 500
"""Malformed packets between two messages of the honest client."""


def corpus() -> list[bytes]:
    """A good packet of every type that a client sends, in both versions."""
    packets: list[Packet] = [
        Connect("hostile", will=Will("w/t", b"gone", 1, True), username="u", password=b"p"),
        Publish("h/a", b"payload" * 5, 0),
        Publish("h/b", b"payload", 1, packet_id=3),
        Publish("h/c", b"payload", 2, True, packet_id=4, properties={"message_expiry_interval": 5}),
        *(Ack(code, 3) for code in (PUBACK, PUBREC, PUBREL, PUBCOMP)),
        Subscribe(7, (Asked("h/#", 2), Asked("$share/g/h/+", 1)), {"subscription_identifier": [5]}),
        Unsubscribe(8, ("h/#", "x")),
        Ping(PINGREQ),
        Disconnect(0),
    ]
    new = [write_packet(one, V5) for one in (*packets, Auth(0))]
    return new + [write_packet(one, V311) for one in packets]


class QuietClock(Clock):
    """A clock that stands still, and forgets timers that are cancelled: a storm sets very many."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: dict[int, object] = {}
        self._numbers = itertools.count()

    def call_later(self, delay: float, action: Callable[[], None]) -> Any:
        number = next(self._numbers)
        self.timers[number] = action
        return _Timer(self.timers, number)


class _Timer:
    def __init__(self, timers: dict[int, object], number: int) -> None:
        self._timers, self._number = timers, number

    def cancel(self) -> None:
        self._timers.pop(self._number, None)


class Sink:
    """A link to a client that reads nothing and does not mind."""

    is_full = False

    def __init__(self) -> None:
        self.is_closed = False

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Outcome:
    malformed: int = 0
    """Connections that the door ended because of what they sent."""
    connections: int = 0
    honest: int = 0
    """Messages of the honest client that arrived."""
    reasons: Counter[str] = field(default_factory=Counter)


def storm(malformed: int, seed: int) -> Outcome:
    rng = random.Random(seed)
    clock = QuietClock()
    door = Door(clock, most_sessions=200, most_retained=100, most_partial=1 << 20)
    reader, writer = door.client("reader"), door.client("writer")
    reader.subscribe("honest/#", qos=1)
    good, outcome = corpus(), Outcome()
    count = door.hub.drop

    def drop(reason: str) -> None:
        outcome.malformed += reason.startswith("client_")
        count(reason)

    door.hub.drop = drop  # type: ignore[method-assign]
    while outcome.malformed < malformed:
        attack(door, rng, good, outcome)
        if outcome.connections % EVERY == 0:
            text = b"%d" % outcome.connections
            writer.send(Publish("honest/x", text, 1, packet_id=1))
            assert reader.payloads()[-1:] == [text], f"seed {seed}: an honest message is missing"
            outcome.honest += 1
            for seen in (reader.got, writer.got, door.network.published):
                seen.clear()
            reader.send(Ack(PUBACK, outcome.honest))
            assert set(door.hub.connections) == {"reader", "writer"}
            assert len(door.hub.sessions) <= 200
            assert door.hub.partials.bytes == 0
            # One for each session that lasts, of each honest client, and of the packets not yet whole.
            assert len(clock.timers) <= 200 + 3
    outcome.reasons.update(door.metrics.family("mqtt_messages_dropped", "reason", "").values)
    return outcome


def attack(door: Door, rng: random.Random, good: list[bytes], outcome: Outcome) -> None:
    """One hostile connection, from its first byte to its end."""
    link, before = Sink(), outcome.malformed
    connection = door.hub.accept(link)
    outcome.connections += 1
    if rng.random() < 0.2:
        connection.feed(rng.randbytes(rng.randrange(1, 64)))
    else:
        version = rng.choice((V311, V5))
        name = f"h{rng.randrange(1000)}"
        connection.feed(write_packet(Connect(name, version=version), version))
        for _ in range(rng.randrange(1, 4)):
            connection.feed(changed(rng, rng.choice(good)))
    assert outcome.malformed - before <= link.is_closed, "who breaks a rule is let go, and once"
    connection.lost()


def changed(rng: random.Random, packet: bytes) -> bytes:
    data = bytearray(packet)
    for _ in range(rng.randrange(1, 4)):
        match rng.randrange(4):
            case 0:
                data[rng.randrange(len(data))] = rng.randrange(256)
            case 1:
                data = data[: rng.randrange(1, len(data) + 1)]
            case 2:
                data += rng.randbytes(rng.randrange(1, 8))
            case _:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


if __name__ == "__main__":
    print(storm(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
