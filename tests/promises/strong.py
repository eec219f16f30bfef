"""Strong collections: a subscriber gets everything added after it joined, once, or is told its gap."""

from __future__ import annotations

import asyncio
from typing import Any

from overlay.errors import CamcastError
from pubsub import Node
from pubsub.collections import DAStrongSequence, DAStrongSet
from tests.promises.storm import Outcome, Program, Storm, eventually, overtaken, twice

NAME = "strong"
KINDS = ("crash", "partition", "spike", "slow", "skew")
MEMBERS = 5
TOPIC = "/EPFL/DSC"

Key = tuple[str, int, int]
"""Who added it, in which of its lives, and which of its elements it is."""


def run(seed: int, minutes: float = 4.0) -> Outcome:
    """Members 1 to 4 add and subscribe; member 0 subscribes, and neither crashes nor leaves. Sets and
    sequences take turns, and two of five seeds have logs: few seeds try all of them.

    With logs everybody comes back from its crashes: all get everything added after they first came."""
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    kind: Any = (DAStrongSet, DAStrongSequence)[seed % 2]
    logged = seed % 5 in (1, 4)
    if logged:
        storm.kinds += ("log",)
    got: dict[tuple[str, int], list[Key]] = {}
    gaps: dict[tuple[str, int], int] = {}
    added: dict[Key, float] = {}
    """When each was begun to be added."""
    came: dict[str, float] = {}

    async def member(program: Program) -> None:
        here = (program.name, program.lives)

        def note(element: Any) -> None:
            got.setdefault(here, []).append(tuple(element.data))

        def miss(gap: Any) -> None:
            gaps[here] = gaps.get(here, 0) + 1

        async with Node(**storm.settings(program)) as node:
            log = program.log if logged else None
            collection = node.collection(kind, TOPIC, keep=0, on_gap=miss, log=log)
            await collection.contains(note)
            async with collection:
                came.setdefault(program.name, storm.net.now)
                number = 0
                while not storm.is_over and program.mortal:
                    await asyncio.sleep(storm.chance.uniform(0.5, 3.0))
                    number += 1
                    began = storm.net.now
                    try:
                        await collection.add([program.name, program.lives, number])
                    except CamcastError:
                        continue
                    added[program.name, program.lives, number] = began
                await asyncio.Event().wait()

    async def main() -> None:
        for number in range(MEMBERS):
            storm.add(f"member {number}", member, mortal=number > 0)
        await storm.begin(2.0, calm=20)
        await storm.rage(calm=20)

        def missing(name: str, lives: range) -> set[Key]:
            """What a member was not given in any of these lives, and should have been."""
            had = {key for life in lives for key in got.get((name, life), [])}
            alive = {(p.name, p.lives) for p in storm.programs}
            owed = {k for k, began in added.items() if began > came.get(name, 0) and k not in had}
            return owed if logged else {key for key in owed if key[:2] in alive}

        for program in storm.programs if logged else storm.programs[:1]:
            name, lives = program.name, range(1, program.lives + 1)
            is_whole = await eventually(
                storm.net,
                600,
                lambda name=name, lives=lives: not missing(name, lives),  # type: ignore[misc]
            )
            if not is_whole and not any(gaps.get((name, life)) for life in lives):
                lost = sorted(missing(name, lives))
                outcome.violations.append(f"{name} never got {lost[:5]} ({len(lost)}), no gap")
        await asyncio.sleep(30)  # nothing comes twice, later on either

    storm.run(main(), outcome)
    outcome.checked = len(added)
    for (name, life), keys in got.items():
        who = f"{name} in life {life}"
        outcome.violations += twice(who, keys)
        if kind is DAStrongSequence:
            outcome.violations += overtaken(who, (((one, run), n) for one, run, n in keys))
    return outcome
