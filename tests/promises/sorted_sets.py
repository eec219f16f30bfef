"""Sorted sets: while the network is whole, everybody delivers the elements in one order."""

from __future__ import annotations

import asyncio
from typing import Any

from overlay.errors import CamcastError
from pubsub import Node
from pubsub.collections import DASortedSet
from tests.promises.storm import Outcome, Program, Storm, eventually

NAME = "sorted"
KINDS = ("crash", "spike", "slow", "skew")
MEMBERS = 4
TOPIC = "/prices"

Key = tuple[str, int, int]


def run(seed: int, minutes: float = 4.0) -> Outcome:
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    got: dict[tuple[str, int], list[Key]] = {}
    added: dict[Key, None] = {}
    is_over = False

    async def member(program: Program) -> None:
        here = (program.name, program.lives)
        settings: dict[str, Any] = {"listen": program.listen, "identity": program.identity}
        if program is not storm.programs[0]:
            settings["bootstrap"] = [storm.first_address]
        async with Node(**settings) as node:
            collection = node.collection(DASortedSet, TOPIC, keep=0)
            await collection.contains(
                lambda element: got.setdefault(here, []).append(tuple(element.data))
            )
            async with collection:
                number = 0
                while not is_over:
                    await asyncio.sleep(storm.chance.uniform(0.5, 3.0))
                    number += 1
                    try:
                        await collection.add([program.name, program.lives, number])
                    except CamcastError:
                        continue
                    added[program.name, program.lives, number] = None
                await asyncio.Event().wait()

    async def main() -> None:
        nonlocal is_over
        for number in range(MEMBERS):
            storm.add(f"member {number}", member, mortal=number > 0)
        for program in storm.programs:
            storm.start(program)
            await asyncio.sleep(3.0)
        await asyncio.sleep(20)
        await storm.rage()
        await asyncio.sleep(60)
        is_over = True
        alive = {(p.name, p.lives) for p in storm.programs}
        wanted = {key for key in added if key[:2] in alive}
        first = ("member 0", 1)
        if not await eventually(storm.net, 600, lambda: wanted <= set(got.get(first, []))):
            missing = wanted - set(got.get(first, []))
            outcome.violations.append(f"{sorted(missing)[:5]} ({len(missing)}) never came")

    storm.run(main(), outcome)
    outcome.checked = len(added)
    reference = {key: place for place, key in enumerate(got.get(("member 0", 1), []))}
    for (name, life), keys in got.items():
        if len(set(keys)) < len(keys):
            outcome.violations.append(f"{name} in life {life} was given an element twice")
        places = [reference[key] for key in keys if key in reference]
        if places != sorted(places):
            wrong = next(i for i in range(1, len(places)) if places[i] < places[i - 1])
            outcome.violations.append(
                f"{name} in life {life} has another order than member 0, from its {wrong}th element on"
            )
    return outcome
