"""The textbook properties of broadcasts, as checkers over what a run did; each returns what is wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

Payload = tuple[int, ...]
Broadcasts = dict[int, list[Payload]]


class Delivery(NamedTuple):
    by: int
    source: int
    payload: Payload | None


@dataclass
class History:
    broadcasts: Broadcasts = field(default_factory=lambda: defaultdict(list))
    deliveries: dict[int, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    past: dict[Payload, frozenset[Payload]] = field(default_factory=dict)
    """What each message depends on: all that its sender had broadcast or delivered, and their pasts."""
    correct: list[int] = field(default_factory=list)

    def record_broadcast(self, rank: int, payload: Payload) -> None:
        before = [*self.broadcasts[rank], *self.payloads(rank)]
        self.past[payload] = frozenset(before).union(*(self.past[one] for one in before))
        self.broadcasts[rank].append(payload)

    def record(self, delivery: Delivery) -> None:
        self.deliveries[delivery.by].append(delivery)

    def payloads(self, rank: int) -> list[Payload]:
        return [d.payload for d in self.deliveries[rank] if d.payload in self.past]  # type: ignore[misc]


def validity(history: History) -> list[str]:
    """What a correct process broadcasts, every correct process delivers."""
    return [
        f"{rank} misses {payload} of the correct {sender}"
        for sender in history.correct
        for payload in history.broadcasts[sender]
        for rank in history.correct
        if payload not in history.payloads(rank)
    ]


def no_duplication(history: History) -> list[str]:
    return [
        f"{rank} delivered {payload} twice"
        for rank in list(history.deliveries)
        for payload in dict.fromkeys(history.payloads(rank))
        if history.payloads(rank).count(payload) > 1
    ]


def no_creation(history: History) -> list[str]:
    return [
        f"{d.by} delivered {d.payload} of {d.source}, who did not broadcast it"
        for deliveries in history.deliveries.values()
        for d in deliveries
        if d.payload not in history.broadcasts.get(d.source, [])
    ]


def agreement(history: History) -> list[str]:
    """What a correct process delivers, every correct process delivers."""
    return _delivered_by(history, history.correct)


def uniform_agreement(history: History) -> list[str]:
    """What any process delivers, every correct process delivers."""
    return _delivered_by(history, list(history.deliveries))


def _delivered_by(history: History, some: list[int]) -> list[str]:
    payloads = {payload: rank for rank in some for payload in history.payloads(rank)}
    return [
        f"{rank} misses {payload}, which {other} delivered"
        for payload, other in payloads.items()
        for rank in history.correct
        if payload not in history.payloads(rank)
    ]


def fifo_order(history: History) -> list[str]:
    """Of one sender's messages, none is delivered before one that was broadcast earlier."""
    return [
        f"{rank} delivered {late} after {early}"
        for rank in list(history.deliveries)
        for place, early in enumerate(history.payloads(rank))
        for late in history.payloads(rank)[place + 1 :]
        if late[0] == early[0] and late < early
    ]


def causal_order(history: History) -> list[str]:
    """No message is delivered before one that it depends on."""
    return [
        f"{rank} delivered {late} after {early}, which depends on it"
        for rank in list(history.deliveries)
        for place, early in enumerate(history.payloads(rank))
        for late in history.payloads(rank)[place + 1 :]
        if late in history.past[early]
    ]


def nothing_skipped(history: History) -> list[str]:
    """A message is delivered only where all that it depends on was delivered."""
    return [
        f"{rank} delivered {payload} without {missing}"
        for rank in list(history.deliveries)
        for payload in history.payloads(rank)
        for missing in sorted(history.past[payload])
        if missing not in history.payloads(rank)
    ]
