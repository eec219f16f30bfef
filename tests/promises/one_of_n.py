"""One of n: each element goes to exactly one of those who asked."""

from __future__ import annotations

import asyncio
from typing import Any

from overlay.errors import CamcastError
from pubsub import Node
from pubsub.collections import DAStrongSet
from tests.promises.storm import Outcome, Program, Storm, eventually

NAME = "one of n"
KINDS = ("crash", "spike", "slow", "skew")
TAKERS = 4
TOPIC = "/tasks"


def run(seed: int, minutes: float = 4.0) -> Outcome:
    """One publisher that lives; takers that crash, unless the seed says that nobody does. In some seeds the
    network splits: then two may get an element, but none goes to nobody."""
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    fate = storm.chance.choice(("crashes", "crashes", "calm", "calm", "split"))
    if fate == "calm":
        storm.kinds = tuple(kind for kind in storm.kinds if kind != "crash")
    elif fate == "split":
        storm.kinds += ("partition",)
    added: dict[int, None] = {}
    taken: dict[int, list[tuple[str, int]]] = {}
    is_asked = False
    """Whether a taker has ever asked: what was added before goes to nobody."""

    async def publisher(program: Program) -> None:
        async with (
            Node(**storm.settings(program)) as node,
            node.collection(DAStrongSet, TOPIC, keep=0) as tasks,
        ):
            number = 0
            while not storm.is_over:
                await asyncio.sleep(storm.chance.uniform(0.1, 1.0))
                number += 1
                try:
                    was_asked = is_asked
                    await tasks.add(number)
                except CamcastError:
                    continue
                if was_asked:
                    added[number] = None
            await asyncio.Event().wait()

    async def taker(program: Program) -> None:
        nonlocal is_asked
        life = program.lives

        async def work(element: Any) -> None:
            await asyncio.sleep(storm.chance.uniform(0.01, 0.3))
            taken.setdefault(element.data, []).append((program.name, life))

        async with Node(**storm.settings(program)) as node:
            tasks = node.collection(DAStrongSet, TOPIC, keep=0)
            await tasks.remove(work)
            async with tasks:
                await asyncio.sleep(5)
                is_asked = True
                await asyncio.Event().wait()

    async def main() -> None:
        storm.add("publisher", publisher, mortal=False)
        for number in range(TAKERS):
            storm.add(f"taker {number}", taker)
        together = storm.chance.random() < 0.5
        for program in storm.programs:
            storm.start(program)
            await asyncio.sleep(0.0 if together and program.name != "publisher" else 3.0)
        await asyncio.sleep(20)
        await storm.rage(calm=20)
        if not await eventually(storm.net, 600, lambda: set(added) <= set(taken)):
            missing = sorted(set(added) - set(taken))
            outcome.violations.append(f"{missing[:5]} ({len(missing)}) were given to nobody")

    storm.run(main(), outcome)
    outcome.checked = len(added)
    last_lives = {(p.name, p.lives) for p in storm.programs}
    for number, takers in taken.items():
        # Whoever crashed may have worked on what it had in hand; those that live share nothing.
        alive = [one for one in takers if one in last_lives]
        if len(alive) > 1 and fate == "calm":
            outcome.violations.append(f"{number} was given to {alive}, and nobody had crashed")
    return outcome
