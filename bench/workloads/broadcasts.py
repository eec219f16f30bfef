"""What each broadcast costs, against the textbook's counts.

Counted on the stage, with links that take exactly one message delay each: messages sent between processes for
one broadcast, how many of them carry the payload, and the message delays until the last member delivers.
Failures are left out except where a row says so. Counts are exact and need no repetition, except those of
probabilistic broadcast, which are means.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.broadcast.events import Broadcast, Deliver, GroupPacket, LayerMessage, StartDetector
from pubsub.broadcast.kernel import LayerChannel, LayerEvent, Stack
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks
from pubsub.broadcast.probabilistic import Probabilistic, missing
from pubsub.broadcast.process import GroupProcess, OnCrash
from pubsub.broadcast.reliable import LazyReliable
from pubsub.broadcast.stacks import stack

PAYLOAD = "x" * 64

SECONDS = 60.0
"""How long a broadcast is watched."""

MOST_GOSSIP = 10_000
"""Gossip at every reception is not measured where a message has more copies than this."""


@dataclass(frozen=True)
class Cost:
    """The cost of one broadcast."""

    messages: int
    payloads: int
    delay: float
    reached: int


class _Troupe:
    """The members of one group on a stage whose links take one second, a message delay."""

    def __init__(self, qos: str, members: int, seed: int, gossip: Probabilistic | None) -> None:
        self.stage = Stage(seed, StageConfig(latency=(1.0, 1.0)))
        self.messages = self.payloads = 0
        self.delivered: dict[int, float] = {}
        self.watchers: list[OnCrash] = []
        self.contacts = [numbered_contact(number) for number in range(members)]
        self.channels = [self._member(rank, qos, gossip) for rank in range(members)]
        self.stage.observe(self._sent)

    def _member(self, rank: int, qos: str, gossip: Probabilistic | None) -> LayerChannel:
        contact = self.contacts[rank]
        process = GroupProcess(
            rank, self.contacts, self.stage.context(contact), watch=self.watchers.append
        )
        receive: Callable[[Any, Any], None] = process.receive
        self.stage.attach(contact, receive)
        channel = _stack(qos, gossip).open(process, lambda event: self._delivered(rank, event))
        channel.push(StartDetector())
        return channel

    def _sent(self, now: float, sender: object, to: object, message: object) -> None:
        assert isinstance(message, GroupPacket)
        self.messages += 1
        self.payloads += message.data is not None

    def _delivered(self, rank: int, event: LayerEvent) -> None:
        if isinstance(event, Deliver):
            self.delivered[rank] = self.stage.now

    def cost(self) -> Cost:
        return Cost(self.messages, self.payloads, max(self.delivered.values()), len(self.delivered))


def measure(
    qos: str,
    members: int,
    *,
    seed: int = 1,
    gossip: Probabilistic | None = None,
    sender_crashes: bool = False,
) -> Cost:
    """The cost of one broadcast; with `sender_crashes`, right after it has sent all its copies.

    The crash is noticed after two message delays, by everyone at once. What members tell each other now and
    then, for many broadcasts together, is not counted.
    """
    troupe = _Troupe(qos, members, seed, gossip)
    troupe.channels[0].push(Broadcast(LayerMessage(PAYLOAD)))
    if sender_crashes:
        troupe.stage.crash(troupe.contacts[0])
        troupe.delivered.pop(0, None)
        troupe.stage.run(2)
        for told in troupe.watchers[1:]:
            told(0)
    troupe.stage.run(SECONDS)
    return troupe.cost()


def _stack(qos: str, gossip: Probabilistic | None) -> Stack:
    if qos != "rb":
        return stack(qos, probabilistic=gossip)
    telling_later = LazyReliable(tell_after=2 * SECONDS)
    return Stack([telling_later, PerfectDetector(), BestEffort(), PerfectLinks()], qos)


TEXTBOOK: dict[tuple[str, bool], tuple[Callable[[int], int], int]] = {
    ("beb", False): (lambda n: n - 1, 1),
    ("rb", False): (lambda n: n - 1, 1),
    ("rb", True): (lambda n: (n - 1) ** 2 + n - 1, 1),
    ("urb", False): (lambda n: n * (n - 1), 2),
    ("iurb", False): (lambda n: n * (n - 1), 2),
}
"""By broadcast and whether its sender crashes: messages in a group of N, and message delays."""


def run(options: argparse.Namespace) -> Iterator[Row]:
    for qos, crashes in TEXTBOOK:
        yield from _costs(qos, crashes, options.members)
    for fanout, rounds in ((3, 5), (3, 7), (4, 6), (4, 8)):
        for first_only in (False, True):
            if first_only or fanout**rounds <= MOST_GOSSIP:
                yield from _gossip(fanout, rounds, first_only, options)


def _costs(qos: str, crashes: bool, members: int) -> Iterator[Row]:
    """The cost of one broadcast beside the textbook's."""
    cost = measure(qos, members, sender_crashes=crashes)
    messages, delays = TEXTBOOK[qos, crashes]
    name = f"{qos}, sender crashes" if crashes else qos
    settings: dict[str, Any] = {"broadcast": name, "members": members}
    found: Values = {
        "messages": (cost.messages, "messages"),
        "textbook messages": (messages(members), "messages"),
        "payloads": (cost.payloads, "messages"),
        "delay": (cost.delay, "message delays"),
        "textbook delay": (delays, "message delays"),
    }
    yield from rows_of(settings, found)


def _gossip(
    fanout: int, rounds: int, first_only: bool, options: argparse.Namespace
) -> Iterator[Row]:
    """Messages and coverage of probabilistic broadcast, gossiping at every reception or the first only."""
    members, layer = options.gossip_members, Probabilistic(fanout, rounds, first_only=first_only)
    settings: dict[str, Any] = {
        "fanout": fanout,
        "rounds": rounds,
        "gossips": "the first" if first_only else "every",
        "members": members,
    }
    for seed in range(options.runs):
        cost = measure("pb", members, seed=seed, gossip=layer)
        reached = (cost.reached - 1) / (members - 1)
        yield Row(settings, "gossip messages", cost.messages, "messages", seed)
        yield Row(settings, "reached", reached, "share", seed)
    if not first_only:
        predicted = 1 - missing(members, fanout, rounds)
        yield Row(settings, "closed form", predicted, "share")


WORKLOAD = Workload(
    "broadcasts",
    "Costs of broadcasts",
    "Messages and delays of each broadcast beside the textbook's, and the coverage of probabilistic "
    "broadcast beside its closed form.",
    (
        Option("members", 8, "members of the group"),
        Option("gossip_members", 1000, "members for probabilistic broadcast", quick=200),
        Option("runs", 5, "seeds for probabilistic broadcast", quick=2),
    ),
    run,
    (
        RowTable(
            "costs",
            "One broadcast in a group",
            {"broadcast": "broadcast", "members": "N"},
            {
                "messages": "{messages:,.0f}",
                "textbook": "{textbook messages:,.0f}",
                "with payload": "{payloads:,.0f}",
                "delays": "{delay:g}",
                "textbook's delays": "{textbook delay:g}",
            },
        ),
        RowTable(
            "gossip",
            "Probabilistic broadcast; medians of the seeds",
            {"members": "N", "fanout": "fanout", "rounds": "rounds", "gossips": "gossips at"},
            {
                "messages": "{gossip messages:,.0f}",
                "reached": "{reached:.4f}",
                "closed form": "{closed form:.4f}",
            },
        ),
    ),
    quick_seconds=5,
    is_wrong=lambda rows: any(
        row.metric == "messages" and row.value != other.value
        for row in rows
        for other in rows
        if other.metric == "textbook messages" and other.settings == row.settings
    ),
)
