"""One-of-n delivery: nobody who lives loses what it has in hand because others enter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import PeerId
from overlay.virtual import Latency, Network, nth_host
from overlay.virtual.stage import Stage, numbered_contact
from pubsub import Node
from pubsub.collections import DAStrongSet
from pubsub.collections.one_of_n import Presence
from tests.pubsub.collections.nodes import slowly
from tests.pubsub.collections.one_of_n_schedules import Schedule

A, B, C = (numbered_contact(number).id for number in range(3))


class Clock:
    def __init__(self) -> None:
        self.stage = Stage(1)
        self.context = self.stage.context(numbered_contact(9), "clock")
        self.asked = 0
        self.presence = Presence(5.0, self.context.now, self.context.call_later, self._ask)

    def _ask(self) -> None:
        self.asked += 1

    def update(self, view: tuple[PeerId, ...], **incarnations: int) -> list[PeerId]:
        names = {"a": A, "b": B, "c": C}
        return sorted(self.presence.update(view, {names[k]: n for k, n in incarnations.items()}))


def test_one_that_is_out_of_the_view_for_a_moment_is_there() -> None:
    clock = Clock()
    assert clock.update((A, B), a=1, b=1, c=1) == sorted([A, B])
    clock.stage.run_for(1.0)
    assert clock.update((A,), a=1, b=1, c=1) == sorted([A, B])
    clock.stage.run_for(4.0)
    assert clock.update((A, B), a=1, b=1) == sorted([A, B])
    clock.stage.run_for(2.0)
    assert clock.update((A,), a=1, b=1) == sorted([A, B]), "it was back in between"


def test_one_that_is_out_of_the_view_for_long_is_gone_and_that_is_noticed() -> None:
    clock = Clock()
    clock.update((A, B), a=1, b=1)
    clock.update((A,), a=1, b=1)
    clock.stage.run_for(5.1)
    assert clock.asked == 1
    assert clock.update((A,), a=1, b=1) == [A]


@pytest.mark.parametrize("incarnations", [{"a": 1}, {"a": 1, "b": 2}], ids=["left", "began anew"])
def test_one_that_left_or_began_anew_is_gone_at_once(incarnations: dict[str, int]) -> None:
    clock = Clock()
    clock.update((A, B), a=1, b=1)
    assert clock.update((A,), **incarnations) == [A]


@pytest.mark.parametrize("seed", [7, 112, 177, pytest.param(2, marks=pytest.mark.sweep)])
def test_takers_that_enter_together_and_crash_do_each_element_once(seed: int) -> None:
    """With 112, and with 104, nobody did what a publisher added when the first taker was inside already, but
    the publisher had not heard of it yet. With 177, a taker that came back under another identity was
    taken for the one that had crashed at its address, and was sent what that one was offered."""
    outcome = Schedule(seed, crashes=seed % 4, loss=(0.0, 0.05, 0.2)[seed % 3]).run()
    assert not outcome.twice
    assert not outcome.never


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_the_same_over_many_seeds(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = Schedule(seed, crashes=seed % 4, loss=(0.0, 0.05, 0.2)[seed % 3]).run()
        assert not outcome.twice, f"seed {seed}"
        assert not outcome.never, f"seed {seed}"


@pytest.mark.parametrize("seed", [2, 18])
def test_takers_that_enter_at_the_same_time_are_not_given_each_others_elements(seed: int) -> None:
    """With these seeds, a taker was out of the view for a moment when another one entered."""
    network = Network(seed, latency=Latency.uniform(0.005, 0.1), loss=0.2)
    done: list[Any] = []

    async def publisher() -> None:
        async with (
            Node(listen=f"{nth_host(0)}:4000") as node,
            node.collection(DAStrongSet, "/w", keep=0) as collection,
        ):
            for element in range(1200):
                await collection.add(element)
                await asyncio.sleep(0.05)

    async def taker(host: str) -> None:
        async with Node(listen=f"{host}:4000", bootstrap=[f"{nth_host(0)}:4000"]) as node:
            collection = node.collection(DAStrongSet, "/w", keep=0)
            await collection.remove(slowly(done, 0.05))
            async with collection:
                await asyncio.sleep(1e9)

    async def main() -> None:
        network.spawn(nth_host(0), publisher())
        await asyncio.sleep(5)
        for number in range(1, 5):
            network.spawn(nth_host(number), taker(nth_host(number)))
        await asyncio.sleep(15)

    network.run(main())
    assert len(done) > 50
    assert sorted(done) == sorted(set(done))
