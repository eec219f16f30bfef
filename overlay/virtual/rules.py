"""Rules: a look at each datagram as it leaves, and a word on what becomes of it.

A rule is a function of a `Packet` that returns `PASS` (or nothing), `DROP`, or a number of seconds by
which the packet is held back. Rules are asked in the order in which they were installed; the delays add
up and the first `DROP` ends it. What passes the rules still meets the network's own loss and latency.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from overlay.contact import Address
from overlay.errors import UsageError


class Packet(NamedTuple):
    """One datagram as it leaves its sender."""

    time: float
    """Seconds of virtual time at which it was sent."""
    source: Address
    destination: Address
    data: bytes

    def __str__(self) -> str:
        return f"{self.time:.6f}s {self.source} -> {self.destination} {len(self.data)} bytes"


class Verdict(enum.Enum):
    """What a rule says of a packet, when it is not a delay."""

    PASS = "pass"
    DROP = "drop"


PASS: Final = Verdict.PASS
DROP: Final = Verdict.DROP

Rule: TypeAlias = Callable[[Packet], Verdict | float | None]


def judge(rules: list[Rule], packet: Packet) -> float | Literal[Verdict.DROP]:
    """The seconds by which the rules hold a packet back, or `DROP`."""
    delay = 0.0
    for rule in rules:
        verdict = rule(packet)
        if verdict is None or verdict is Verdict.PASS:
            continue
        if verdict is Verdict.DROP:
            return Verdict.DROP
        if isinstance(verdict, bool) or not isinstance(verdict, int | float) or not verdict >= 0:
            raise UsageError(
                f"a rule returns PASS, DROP or seconds to hold a packet back, not {verdict!r}"
            )
        delay += verdict
    return delay
