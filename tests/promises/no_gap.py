"""No gap: every message, once, in each publisher's order, though distributors crash; or an error."""

from __future__ import annotations

import asyncio

from overlay.errors import CamcastError
from pubsub.distributors import Distributor, DistributorConfig, GapError, Publisher, Subscriber
from pubsub.reliable.receipts import Wait
from tests.promises.storm import Outcome, Program, Storm, eventually, overtaken, twice

NAME = "no gap"
KINDS = ("crash", "spike", "slow", "skew")
DISTRIBUTORS, PUBLISHERS, SUBSCRIBERS = 3, 2, 3
SERVICE = "ticker"
CONFIG = DistributorConfig(recent_bytes=0)
"""What all have is let go of at once: a message that somebody lacks must come from one who knows of that."""


def run(seed: int, minutes: float = 4.0) -> Outcome:
    """Distributors crash, the first one excepted; subscribers live.

    In some seeds the network is partitioned too, and in some publishers crash as well, which then wait until
    all distributors have a message."""
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    if storm.chance.random() < 0.4:
        storm.kinds += ("partition",)
    publishers_crash = storm.chance.random() < 0.3
    tried: dict[str, int] = {}
    life_of: dict[tuple[str, int], int] = {}
    """In which of its lives a publisher tried a message: each has an identity of its own, so each is another
    publisher."""
    sent: dict[tuple[str, int], None] = {}
    got: dict[str, list[tuple[str, int]]] = {}
    """By subscriber and subscription."""
    told: dict[str, int] = {}
    subscriptions: dict[str, int] = {}

    async def distributor(program: Program) -> None:
        async with Distributor([SERVICE], config=CONFIG, **storm.settings(program)):
            await asyncio.Event().wait()

    async def publisher(program: Program) -> None:
        async with Publisher(bootstrap=[storm.first_address], listen=program.listen) as client:
            while not storm.is_over:
                await asyncio.sleep(storm.chance.uniform(0.1, 0.8))
                number = tried[program.name] = tried.get(program.name, 0) + 1
                life_of[program.name, number] = program.lives
                wait: Wait = "safe" if publishers_crash else "acked"
                try:
                    await client.publish(SERVICE, [program.name, number], wait=wait)
                except CamcastError:
                    continue
                sent[program.name, number] = None
            await asyncio.Event().wait()

    async def subscriber(program: Program) -> None:
        async with (
            Subscriber(bootstrap=[storm.first_address], listen=program.listen) as client,
            client.subscribe(SERVICE, semantics="no_gap") as messages,
        ):
            count = subscriptions[program.name] = subscriptions.get(program.name, 0) + 1
            seen = got.setdefault(f"{program.name}, subscription {count}", [])
            try:
                async for message in messages:
                    name, number = message.data  # type: ignore[union-attr]
                    seen.append((name, number))
            except GapError:
                told[program.name] = told.get(program.name, 0) + 1
                raise

    async def main() -> None:
        for number in range(DISTRIBUTORS):
            storm.add(f"distributor {number}", distributor, mortal=number > 0)
        for number in range(SUBSCRIBERS):
            storm.add(f"subscriber {number}", subscriber, mortal=False)
        for number in range(PUBLISHERS):
            storm.add(f"publisher {number}", publisher, mortal=publishers_crash)
        await storm.begin(2.0, calm=10)
        await storm.rage()
        await asyncio.sleep(30)
        for number in range(SUBSCRIBERS):
            name = f"subscriber {number}"

            def lacking(name: str = name) -> set[tuple[str, int]]:
                if told.get(name):
                    return set()
                return set(sent) - set(got.get(f"{name}, subscription 1", []))

            if not await eventually(storm.net, 300, lambda: not lacking()):
                lost = lacking()
                outcome.violations.append(f"{name} never got {sorted(lost)[:5]} ({len(lost)})")

    storm.run(main(), outcome)
    if "partition" not in storm.kinds and told:
        outcome.violations.append(
            f"{sorted(told)} were told of a gap; one who had everything lived"
        )
    outcome.checked = len(sent) * SUBSCRIBERS
    for name, keys in got.items():
        outcome.violations += twice(name, keys)
        of_lives = (((one, life_of[one, number]), number) for one, number in keys)
        outcome.violations += overtaken(name, of_lives)
    return outcome
