"""`camcast bench broadcasts`: what each broadcast costs, against the textbook's counts, as a table.

Counted on the stage, with links that take exactly one message delay each: messages sent between processes for
one broadcast, how many of them carry the payload, and the message delays until the last member delivers.
Failures are left out except where a row says so. Counts are exact and need no repetition, except those of
probabilistic broadcast, which are means.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.broadcast.best_effort import BestEffort
from pubsub.broadcast.events import Broadcast, Deliver, StartDetector
from pubsub.broadcast.kernel import Channel, Event, QoS, compose
from pubsub.broadcast.lazy_reliable import LazyReliable
from pubsub.broadcast.links import PerfectLinks
from pubsub.broadcast.message import Message, Packet
from pubsub.broadcast.perfect_detector import PerfectDetector
from pubsub.broadcast.probabilistic import Probabilistic, missing
from pubsub.broadcast.process import OnCrash, Process
from pubsub.broadcast.stacks import stack

PAYLOAD = "x" * 64

SECONDS = 60.0
"""How long a broadcast is watched."""


@dataclass(frozen=True)
class Cost:
    """Of one broadcast."""

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

    def _member(self, rank: int, qos: str, gossip: Probabilistic | None) -> Channel:
        contact = self.contacts[rank]
        process = Process(
            rank, self.contacts, self.stage.context(contact), watch=self.watchers.append
        )
        receive: Callable[[Any, Any], None] = process.receive
        self.stage.attach(contact, receive)
        channel = _stack(qos, gossip).open(process, lambda event: self._delivered(rank, event))
        channel.push(StartDetector())
        return channel

    def _sent(self, now: float, sender: object, to: object, message: object) -> None:
        assert isinstance(message, Packet)
        self.messages += 1
        self.payloads += message.data is not None

    def _delivered(self, rank: int, event: Event) -> None:
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
    troupe.channels[0].push(Broadcast(Message(PAYLOAD)))
    if sender_crashes:
        troupe.stage.crash(troupe.contacts[0])
        troupe.delivered.pop(0, None)
        troupe.stage.run(2)
        for told in troupe.watchers[1:]:
            told(0)
    troupe.stage.run(SECONDS)
    return troupe.cost()


def _stack(qos: str, gossip: Probabilistic | None) -> QoS:
    if qos != "rb":
        return stack(qos, probabilistic=gossip)
    telling_later = LazyReliable(tell_after=2 * SECONDS)
    return compose(qos, telling_later, PerfectDetector(), BestEffort(), PerfectLinks())


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(members: int = 8) -> str:
    """The costs in a group of this size, as Markdown."""
    n = members
    rows = [
        ("beb", False, f"N - 1 = {n - 1}", 1),
        ("rb", False, f"N - 1 = {n - 1}", 1),
        ("rb", True, f"(N - 1)^2 + N - 1 = {n * (n - 1)}", 1),
        ("urb", False, f"N(N - 1) = {n * (n - 1)}", 2),
        ("iurb", False, f"N(N - 1) = {n * (n - 1)}", 2),
    ]
    lines = [
        _row("broadcast", "messages", "textbook", "with payload", "delays", "textbook"),
        _row("---", "---:", "---:", "---:", "---:", "---:"),
    ]
    for qos, crashes, textbook, delays in rows:
        cost = measure(qos, members, sender_crashes=crashes)
        name = f"{qos}, sender crashes" if crashes else qos
        lines.append(_row(name, cost.messages, textbook, cost.payloads, f"{cost.delay:g}", delays))
    return "\n".join(lines)


def gossip_table(members: int = 1000, runs: int = 5) -> str:
    """Messages and coverage of probabilistic broadcast, gossiping at every reception or the first only."""
    lines = [
        _row("fanout", "rounds", "gossips at", "messages", "reached", "closed form"),
        _row("---:", "---:", "---", "---:", "---:", "---:"),
    ]
    for fanout, rounds in ((3, 5), (3, 7), (4, 6), (4, 8)):
        for first_only in (False, True):
            if not first_only and fanout**rounds > 10_000:
                continue
            layer = Probabilistic(fanout, rounds, first_only=first_only)
            costs = [measure("pb", members, seed=seed, gossip=layer) for seed in range(runs)]
            reached = mean((cost.reached - 1) / (members - 1) for cost in costs)
            predicted = f"{1 - missing(members, fanout, rounds):.4f}" if not first_only else ""
            lines.append(
                _row(
                    fanout,
                    rounds,
                    "the first" if first_only else "every",
                    round(mean(cost.messages for cost in costs)),
                    f"{reached:.4f}",
                    predicted,
                )
            )
    return "\n".join(lines)


def print_tables(arguments: argparse.Namespace) -> int:
    print(table(arguments.members))
    print()
    print(gossip_table(arguments.gossip_members))
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "broadcasts",
        help="what each broadcast costs, against the textbook's counts",
        description="Print the messages and delays of each broadcast as Markdown tables.",
        epilog="example: camcast bench broadcasts --members 8",
    )
    parser.add_argument("--members", type=int, default=8, help="of the group (default: 8)")
    parser.add_argument(
        "--gossip-members", type=int, default=1000, help="for probabilistic broadcast"
    )
    parser.set_defaults(action=print_tables)
