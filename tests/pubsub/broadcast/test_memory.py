"""What a member keeps does not grow with the number of broadcasts; copies are as few as promised."""

from __future__ import annotations

import gc
from collections import deque
from typing import Any

import pytest

from overlay.virtual.stage import Stage, numbered_contact
from pubsub.broadcast.events import Broadcast, LayerMessage, StartDetector
from pubsub.broadcast.kernel import LayerChannel
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.process import GroupProcess, OnCrash
from pubsub.broadcast.stacks import stack
from tests.pubsub.broadcast.adversary import Schedule, World


class Wire:
    """Links without time: what is sent arrives in order, when `run` is called."""

    def __init__(self, qos: str, order: str, members: int) -> None:
        contacts = [numbered_contact(number) for number in range(members)]
        self._stage = Stage(1)
        self._transit: deque[tuple[int, Any, Any]] = deque()
        self._ranks = {contact.id: rank for rank, contact in enumerate(contacts)}
        self._contacts = contacts
        self.watchers: list[OnCrash] = []
        self.down: set[int] = set()
        self.delivered = 0
        self.channels: list[LayerChannel] = []
        self._processes = [
            GroupProcess(rank, contacts, self._context(rank), watch=self.watchers.append)
            for rank in range(members)
        ]
        for process in self._processes:
            self.channels.append(stack(qos, order, Probabilistic(2, 2)).open(process, self._count))
            self.channels[-1].push(StartDetector())

    def _context(self, rank: int) -> Any:
        context = self._stage.context(self._contacts[rank])
        transit = self._transit

        class Here:
            random, now, call_later = context.random, context.now, context.call_later

            def send(self, to: Any, message: Any) -> None:
                transit.append((rank, to, message))

        return Here()

    def _count(self, event: Any) -> None:
        self.delivered += 1

    def run(self) -> None:
        self._stage.run_for(0.001)
        while self._transit:
            sender, to, message = self._transit.popleft()
            if self._ranks[to.id] not in self.down and sender not in self.down:
                self._processes[self._ranks[to.id]].receive(self._contacts[sender], message)

    def stored(self, layer: str) -> int:
        return max(channel.session(layer).stored for channel in self.channels)  # type: ignore[attr-defined]


def check_flat(qos: str, order: str, broadcasts: int, crash: bool = False) -> None:
    wire = Wire(qos, order, members=3)
    objects: list[int] = []
    for number in range(broadcasts):
        sender = number % (2 if wire.down else 3)
        wire.channels[sender].push(Broadcast(LayerMessage(number)))
        wire.run()
        if crash and number == broadcasts // 10:
            wire.down.add(2)
            for told in wire.watchers:
                told(2)
        if number in (broadcasts // 5, broadcasts - 1):
            gc.collect()
            objects.append(len(gc.get_objects()))
            assert wire.stored(qos) <= 200
    assert wire.delivered >= 2 * broadcasts
    assert abs(objects[1] - objects[0]) < 2000


@pytest.mark.parametrize("qos", ["rb", "urb", "iurb", "pb"])
def test_what_is_kept_stays_flat(qos: str) -> None:
    check_flat(qos, "causal", 3000)


@pytest.mark.parametrize("qos", ["rb", "urb"])
def test_what_is_kept_stays_flat_after_a_crash(qos: str) -> None:
    check_flat(qos, "none", 3000, crash=True)


@pytest.mark.sweep
@pytest.mark.parametrize("qos", ["rb", "urb", "iurb", "pb"])
def test_what_is_kept_stays_flat_over_a_hundred_thousand_broadcasts(qos: str) -> None:
    check_flat(qos, "none", 100_000)


@pytest.mark.parametrize("seed", range(40))
def test_no_more_than_a_majority_keeps_a_copy_for_a_member_that_crashed(seed: int) -> None:
    """And at least one of the correct ones does, for the day it comes back."""
    members = 3 + seed % 4
    world = World(stack("iurb"), Schedule(seed, members=members, crashes=((0, 1 + seed % 9),)))
    history = world.run()
    for origin in range(members):
        for number in range(1, len(history.broadcasts[origin]) + 1):
            delivered = [
                rank for rank in world.correct() if (origin, number - 1) in history.payloads(rank)
            ]
            sessions = [channel.session("iurb") for channel in world.channels.values()]
            holders = [
                rank
                for rank, session in enumerate(sessions)
                if session.holds(origin, number)  # type: ignore[attr-defined]
            ]
            copies = [rank for rank in holders if world.up[rank]]
            if delivered:
                assert len(copies) <= members // 2 + 1, f"seed {seed}"
                had_it = 0 in holders or (origin, number - 1) in history.payloads(0)
                assert copies or world.up[0] or had_it, f"seed {seed}"
