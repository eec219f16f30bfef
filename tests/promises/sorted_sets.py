"""Sorted sets: while the network is whole, everybody delivers the elements in one order.

Any two lives of any members are compared, those that crashed among them, in all that both delivered. In some
seeds the network splits: then the sides may have two orders, but everything still comes, once. In others
members have logs, on disks that fail at times."""

from __future__ import annotations

import asyncio
from itertools import combinations, pairwise

from overlay.errors import CamcastError
from pubsub import Node
from pubsub.collections import DASortedSet
from tests.promises.storm import Outcome, Program, Storm, eventually, twice

NAME = "sorted"
KINDS = ("crash", "spike", "slow", "skew")
MEMBERS = 4
TOPIC = "/prices"

Key = tuple[str, int, int]


def run(seed: int, minutes: float = 4.0) -> Outcome:
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    fate = storm.chance.choice(("whole", "whole", "logged", "split"))
    storm.kinds += {"logged": ("log",), "split": ("partition",)}.get(fate, ())
    got: dict[tuple[str, int], list[Key]] = {}
    added: dict[Key, None] = {}

    async def member(program: Program) -> None:
        here = (program.name, program.lives)
        async with Node(**storm.settings(program)) as node:
            log = program.log if fate == "logged" else None
            collection = node.collection(DASortedSet, TOPIC, keep=0, log=log)
            await collection.contains(
                lambda element: got.setdefault(here, []).append(tuple(element.data))
            )
            async with collection:
                number = 0
                while not storm.is_over:
                    await asyncio.sleep(storm.chance.uniform(0.5, 4.0))
                    number += 1
                    try:
                        await collection.add([program.name, program.lives, number])
                    except CamcastError:
                        continue
                    added[program.name, program.lives, number] = None
                await asyncio.Event().wait()

    async def main() -> None:
        for number in range(MEMBERS):
            storm.add(f"member {number}", member, mortal=number > 0)
        await storm.begin(3.0, calm=20)
        await storm.rage(calm=20)
        alive = {(p.name, p.lives) for p in storm.programs}
        wanted = {key for key in added if key[:2] in alive}
        first = ("member 0", 1)
        if not await eventually(storm.net, 600, lambda: wanted <= set(got.get(first, []))):
            missing = wanted - set(got.get(first, []))
            outcome.violations.append(f"{sorted(missing)[:5]} ({len(missing)}) never came")

    storm.run(main(), outcome)
    outcome.checked = len(added)
    outcome.violations += check(got, is_one_order=fate != "split")
    return outcome


def check(got: dict[tuple[str, int], list[Key]], *, is_one_order: bool = True) -> list[str]:
    """What is wrong with what each life of each member delivered."""
    wrong: list[str] = []
    for (name, life), keys in got.items():
        wrong += twice(f"{name} in life {life}", keys)
    for (one, mine), (other, theirs) in combinations(got.items() if is_one_order else (), 2):
        places = {key: place for place, key in enumerate(mine)}
        both = [key for key in theirs if key in places]
        for before, after in pairwise(both):
            if places[after] < places[before]:
                wrong.append(f"{one} delivered {after} before {before}, and {other} after it")
                break
    return wrong
