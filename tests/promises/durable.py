"""Durable topics: nothing acknowledged is lost, nothing comes twice unmarked, publishers' orders are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from overlay.errors import CamcastError
from pubsub import Archive, Node
from pubsub.archive.durable_subscription import Delivery
from pubsub.archive.store.append_files import AppendFileStore
from tests.promises.storm import Outcome, Program, Storm, eventually

NAME = "durable"
KINDS = ("crash", "partition", "spike", "slow", "disk", "skew")
ARCHIVES, PUBLISHERS, READERS = 3, 2, 3
OPTIMISTIC = 2
"""The reader that takes events as they come, live too: no order is promised to it."""
TOPIC = "/orders"

Key = tuple[str, int]
"""A publisher's name and its own count of its events, which goes on after a crash."""


def run(seed: int, minutes: float = 4.0) -> Outcome:
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    tried: dict[str, int] = {}
    acknowledged: dict[Key, None] = {}
    read: dict[str, list[tuple[Key, bool, int, tuple[str, int]]]] = {}
    """By reader: the event, whether it was marked, the reader's life, and the publisher's life."""
    done: set[str] = set()
    """Publishers that publish no more."""

    async def meeting_point(program: Program) -> None:
        async with Node(**storm.settings(program)):
            await asyncio.Event().wait()

    async def archive(program: Program) -> None:
        store = AppendFileStore(program.disk, "/archive")
        async with Archive([TOPIC], store=store, **storm.settings(program)):
            await asyncio.Event().wait()

    async def publisher(program: Program) -> None:
        async with Node(**storm.settings(program)) as node:
            while not storm.is_over:
                await asyncio.sleep(storm.chance.uniform(0.1, 1.0))
                number = tried[program.name] = tried.get(program.name, 0) + 1
                data = [program.name, number, program.lives]
                try:
                    await node.publish(TOPIC, data, durable=True, deadline=60)
                except CamcastError:
                    continue
                acknowledged[program.name, number] = None
        done.add(program.name)

    def kind(program: Program) -> Delivery:
        return "optimistic" if program.name == f"reader {OPTIMISTIC}" else "ordered"

    async def reader(program: Program) -> None:
        async with (
            Node(**storm.settings(program)) as node,
            node.subscribe(
                TOPIC, durable=program.name, since="beginning", within=60, delivery=kind(program)
            ) as events,
        ):
            async for event in events:
                name, number, life = event.data
                seen = read.setdefault(program.name, [])
                seen.append(((name, number), event.redelivered, program.lives, (name, life)))
                if event.missed:
                    outcome.violations.append(f"{program.name} was told of {event.missed} missed")

    async def main() -> None:
        storm.add("meeting point", meeting_point, mortal=False)
        for number in range(ARCHIVES):
            storm.add(f"archive {number}", archive)
        for number in range(PUBLISHERS):
            storm.add(f"publisher {number}", publisher)
        for number in range(READERS):
            storm.add(f"reader {number}", reader)
        await storm.begin(1.0, calm=10)
        await storm.rage()
        if not await eventually(storm.net, 120, lambda: len(done) == PUBLISHERS):
            outcome.violations.append("publishing went on for longer than its deadline")

        def have_all(name: str) -> Callable[[], bool]:
            return lambda: set(acknowledged) <= {key for key, *_ in read.get(name, [])}

        for number in range(READERS):
            name = f"reader {number}"
            if not await eventually(storm.net, 600, have_all(name)):
                lost = set(acknowledged) - {key for key, *_ in read.get(name, [])}
                outcome.violations.append(f"{name} never got {sorted(lost)[:5]} ({len(lost)})")

    storm.run(main(), outcome)
    outcome.checked = len(acknowledged) * READERS
    for name, seen in read.items():
        outcome.violations += check(name, seen, is_ordered=name != f"reader {OPTIMISTIC}")
    return outcome


def check(
    name: str, seen: list[tuple[Key, bool, int, tuple[str, int]]], *, is_ordered: bool
) -> list[str]:
    """What was promised of the order and of repetitions, and does not hold."""
    wrong: list[str] = []
    ever: set[Key] = set()
    in_life: dict[int, set[Key]] = {}
    last: dict[tuple[int, tuple[str, int]], int] = {}
    for key, is_marked, life, publisher in seen:
        if key in in_life.setdefault(life, set()):
            wrong.append(f"{name} got {key} twice in one life")
        if is_ordered and key in ever and not is_marked:
            wrong.append(f"{name} got {key} again, unmarked")
        if is_ordered and last.get((life, publisher), 0) > key[1]:
            wrong.append(f"{name} got {key} after {last[life, publisher]} of the same publisher")
        ever.add(key)
        in_life[life].add(key)
        last[life, publisher] = key[1]
    return wrong
