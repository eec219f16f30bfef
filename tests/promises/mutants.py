"""The product broken on purpose, one way after another: schedules that do not notice prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from pubsub.archive.durable_event import DurableEvent
from pubsub.broadcast.events import Deliver
from pubsub.broadcast.log import SqliteGroupLog
from pubsub.broadcast.majority import IndulgentSession
from pubsub.camcast.leases import Leases
from pubsub.camcast.messages import Check, CheckAnswer
from pubsub.collections.messages import TakerAnswer
from pubsub.collections.one_of_n.assigning import Assigner
from pubsub.collections.total_order import TotalOrder
from pubsub.distributors.protocol.service import Stability
from pubsub.distributors.protocol.subscription import SourceOrder
from pubsub.doors.mqtt.session import Session
from pubsub.doors.mqtt.shared import Group
from pubsub.topics.delivering import Delivering
from pubsub.topics.forwarding import CheckAndForward
from tests.promises.storm import Outcome

MOST_SEEDS = 12
"""Seeds within which a mutant must be noticed."""

MINUTES = 2.0


@dataclass(frozen=True)
class Mutant:
    """One way to break the product, which storms of one service must notice."""

    name: str
    service: str
    where: type
    attribute: str
    broken: Any
    """What stands in the attribute's place."""


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _all_early(self: Delivering, source: bytes) -> list[int]:
    return sorted(self._early.get(source, {}))


def _as_it_comes(
    self: TotalOrder, source: Any, number: int, clock: int, item: Any, complete: int
) -> None:
    if self.orders:
        self._deliver(item)
    if complete:
        self._saw(source, complete)


_answered = Assigner.answered


def _never_taken(self: Assigner, sender: Any, answer: TakerAnswer) -> None:
    _answered(self, sender, replace(answer, taken=False))


def _deliver_at_once(self: IndulgentSession, origin: int, number: int, copy: Any) -> None:
    if copy.message is not None and self._delivered[origin].add(number):
        copy.channel.up(self, Deliver(origin, copy.message.pop(3)[1], number))


def _no_id(self: Session, packet_id: int) -> bytes:
    return b""


def _not_written(self: SqliteGroupLog, stored: Any, then: Callable[[], None]) -> None:
    then()


_give = Group._give


def _done_at_once(self: Group, message: Any, done: Callable[[], None]) -> None:
    done()
    _give(self, message, _nothing)


def _forget_what_was_promised(self: Leases, sender: Any, check: Check) -> None:
    lease = self._promise(check.topic)
    self._control.send(sender, CheckAnswer(check.topic, check.nonce, lease))


_unmarked = property(lambda event: False, _nothing)

MUTANTS = [
    Mutant(
        "a member that leaves keeps no promise to stay",
        "best effort",
        Leases,
        "receive_check",
        _forget_what_was_promised,
    ),
    Mutant("nothing is marked as given again", "durable", DurableEvent, "redelivered", _unmarked),
    Mutant("nobody sends what another one lacks", "strong", CheckAndForward, "check", _nothing),
    Mutant("sequences take elements as they come", "strong", Delivering, "_ready", _all_early),
    Mutant("sorted sets take elements as they come", "sorted", TotalOrder, "_take", _as_it_comes),
    Mutant("what is taken is given again", "one of n", Assigner, "answered", _never_taken),
    Mutant(
        "distributors let go of what others lack",
        "no gap",
        Stability,
        "releasable",
        lambda self, key, mine: mine,
    ),
    Mutant(
        "subscribers do not ask for what is missing", "no gap", SourceOrder, "_ask_for", _nothing
    ),
    Mutant(
        "members deliver what no majority has",
        "groups",
        IndulgentSession,
        "_settle",
        _deliver_at_once,
    ),
    Mutant("a log writes nothing", "groups", SqliteGroupLog, "held", _not_written),
    Mutant(
        "doors say that a member has what it was sent", "mqtt doors", Group, "_give", _done_at_once
    ),
    Mutant("doors publish under ids of their own", "mqtt doors", Session, "message_id", _no_id),
]


MISSED = 0

Run = Callable[[str, int, float], Outcome]


def seeds_until_noticed(name: str, run: Run) -> int:
    """Run seeds of a mutant until one breaks a promise; `MISSED` when none does."""
    mutant = next(one for one in MUTANTS if one.name == name)
    with patch.object(mutant.where, mutant.attribute, mutant.broken):
        for seed in range(MOST_SEEDS):
            if run(mutant.service, seed, MINUTES).violations:
                return seed + 1
    return MISSED


def row(mutant: Mutant, seeds: int, commit: str) -> str:
    """Of the ledger's table."""
    return f"| {mutant.name} | {mutant.service} | {seeds or 'missed'} | {commit} |"
