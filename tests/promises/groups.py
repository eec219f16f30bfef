"""Groups: what any member delivers, every correct member delivers, once, in the order asked for."""

from __future__ import annotations

import asyncio

from overlay.errors import CamcastError
from pubsub import Group
from tests.promises.storm import Outcome, Program, Storm, eventually, overtaken, twice

NAME = "groups"
KINDS = ("spike", "slow", "skew")
MEMBERS = 5


def run(seed: int, minutes: float = 4.0) -> Outcome:
    """All of them with any order; two of five members crash for good at some moment. `iurb` is partitioned
    too, and with logs all crash again and again, and come back. What a member delivered that crashed then
    binds the others, but not with `rb`."""
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    logged = storm.chance.random() < 0.4
    if logged:
        storm.kinds += ("crash", "log")
    order = "none" if logged else storm.chance.choice(("none", "fifo", "causal"))
    qos = "iurb" if logged else storm.chance.choice(("iurb", "iurb", "urb", "rb"))
    if qos == "iurb":  # the others need a failure detector that is right
        storm.kinds += ("partition",)
    got: dict[str, list[tuple[int, int]]] = {}
    """By member; of one that came back, without what it was given a second time."""
    lives: dict[tuple[str, int], list[tuple[int, int]]] = {}
    tried: dict[int, int] = {}
    sent: dict[tuple[int, int], None] = {}

    async def member(program: Program) -> None:
        rank = storm.programs.index(program)
        addresses = [one.listen for one in storm.programs]
        here = lives.setdefault((program.name, program.lives), [])
        log = program.log if logged else None
        async with Group(addresses, rank, qos, order=order, log=log) as group:

            async def broadcast() -> None:
                while not storm.is_over:
                    await asyncio.sleep(storm.chance.uniform(0.2, 2.0))
                    number = tried[rank] = tried.get(rank, 0) + 1
                    try:
                        await group.broadcast([rank, number])
                    except CamcastError:
                        return
                    sent[rank, number] = None

            sending = asyncio.create_task(broadcast())
            try:
                async for message in group:
                    key = (message.data[0], message.data[1])
                    here.append(key)
                    known = got.setdefault(program.name, [])
                    if not logged or program.lives == 1 or key not in known:
                        known.append(key)
            finally:
                sending.cancel()

    async def main() -> None:
        for number in range(MEMBERS):
            storm.add(f"member {number}", member, mortal=logged)
        for program in storm.programs:
            storm.start(program)
        await asyncio.sleep(5)

        async def two_die() -> None:
            if logged:
                return
            for victim in storm.chance.sample(storm.programs, 2):
                await asyncio.sleep(storm.chance.uniform(5, 60))
                if qos == "iurb":  # what it delivers alone now, nobody else ever will
                    storm.net.partition(
                        [victim.host], [p.host for p in storm.programs if p != victim]
                    )
                    await asyncio.sleep(storm.chance.uniform(0.5, 5))
                    storm.net.heal()
                storm.faults["crash for good"] += 1
                storm.net.crash(victim.host)
                victim.make = _nothing
                victim.mortal = False

        dying = asyncio.create_task(two_die())
        await storm.rage(dying)
        alive = [p for p in storm.programs if p.make is not _nothing]
        ranks = [storm.programs.index(p) for p in alive]
        wanted = {key for key in sent if key[0] in ranks}

        def agree() -> bool:
            sets = [set(got.get(p.name, [])) for p in alive]
            everything = set().union(*(sets if qos == "rb" else map(set, got.values())))
            return all(one == everything and wanted <= one for one in sets)

        if not await eventually(storm.net, 600, agree):
            sizes = {p.name: len(got.get(p.name, [])) for p in alive}
            outcome.violations.append(f"the living do not agree: {sizes}, {len(wanted)} from them")

    storm.run(main(), outcome)
    outcome.checked = len(sent)
    for (name, life), keys in lives.items():
        outcome.violations += twice(f"{name} in life {life}", keys)
    for name, keys in got.items():
        outcome.violations += twice(name, keys)
        if order != "none":
            outcome.violations += overtaken(name, keys)
    return outcome


async def _nothing(program: Program) -> None:
    """A member that has crashed stays away."""
