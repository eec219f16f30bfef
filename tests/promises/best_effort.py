"""Best effort: each event at most once, only to those in its communities, and whatever broke is repaired;
a request gets one reply, its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from overlay.errors import CamcastError
from overlay.membership.modes import ModeName
from pubsub import Node, NoReply, Subscription, Topic
from tests.promises.storm import Outcome, Program, Storm, eventually, twice
from tests.pubsub.parasites import ParasiteWatch

NAME = "best effort"
KINDS = ("crash", "spike", "slow", "skew", "partition")
MODES: tuple[ModeName, ...] = ("structured", "semi-structured")
TOPICS = ("/a", "/a/b", "/c")
MEMBERS, WANDERER = 8, 3
SERVED = "/sum"
ROUNDS = 6
"""Events that are published in each topic after the storm: everyone gets one of them at least."""


def run(seed: int, minutes: float = 4.0) -> Outcome:
    """Members of three topics publish what nobody else does; half of them crash, and one goes from topic to
    topic. Three serve a name, and all ask for it."""
    storm = Storm(seed, minutes, KINDS)
    outcome = Outcome(NAME, seed)
    mode = storm.chance.choice(MODES)
    watch = ParasiteWatch()
    tried: set[tuple[str, str, int, int]] = set()
    """The topic, the publisher and its life, the number."""
    got: dict[tuple[str, int], list[tuple[str, str, int, int]]] = {}
    """By subscriber, and which subscription of all it is."""
    latest: dict[str, list[tuple[str, str, int, int]]] = {}
    asked = answered = 0
    wrong: list[str] = []
    begun: set[str] = set()

    async def publish(program: Program, node: Node, topic: str) -> None:
        number = 0
        while not storm.is_over:
            await asyncio.sleep(storm.chance.uniform(0.2, 2.0))
            number += 1
            tried.add((topic, program.name, program.lives, number))
            with suppress(CamcastError):
                await node.publish(topic, [program.name, program.lives, number], deadline=10)

    async def ask(program: Program, node: Node) -> None:
        nonlocal asked, answered
        while True:
            await asyncio.sleep(storm.chance.uniform(1.0, 5.0))
            one, other = storm.chance.randrange(100), storm.chance.randrange(100)
            asked += 1
            with suppress(NoReply):
                reply = await node.request(SERVED, [one, other], timeout=6.0)
                answered += 1
                if reply != one + other:
                    wrong.append(f"{program.name} asked for {one} + {other} and was told {reply}")

    async def serve(node: Node) -> None:
        async with node.serve(SERVED) as requests:
            async for request in requests:
                with suppress(CamcastError):
                    await request.reply(sum(request.data))

    async def member(program: Program) -> None:
        place = storm.programs.index(program)
        topic = TOPICS[place % len(TOPICS)]
        known = [one.listen for one in storm.programs[:2] if one is not program]
        seen = got.setdefault((program.name, len(got)), [])
        latest[program.name] = seen
        node = Node(
            listen=program.listen,
            identity=program.identity,
            mode=mode,
            bootstrap=known if place or program.lives > 1 else [],
        )
        async with node:
            if program.mortal or program.name in begun:
                watch.forget(
                    node
                )  # one that comes back under its identity may be sent what it left
            else:
                watch.add(node)
            begun.add(program.name)
            if place == WANDERER:
                await wander(program, node)
            else:
                await stay(program, node, topic, seen)

    async def wander(program: Program, node: Node) -> None:
        while True:
            topic = storm.chance.choice(TOPICS)
            seen = got.setdefault((program.name, len(got)), [])
            with suppress(TimeoutError, CamcastError):
                async with (
                    node.subscribe(topic) as events,
                    asyncio.timeout(storm.chance.uniform(5, 20)),
                ):
                    await take(topic, events, seen)

    async def take(topic: str, events: Subscription, seen: list[tuple[str, str, int, int]]) -> None:
        async for event in events:
            name, life, number = event.data
            seen.append((event.topic, name, life, number))
            if not Topic.of(topic).includes(Topic.of(event.topic)):
                wrong.append(f"one in {topic} was given an event of {event.topic}")

    async def stay(
        program: Program, node: Node, topic: str, seen: list[tuple[str, str, int, int]]
    ) -> None:
        async with node.subscribe(topic) as events:
            tasks = [
                asyncio.create_task(publish(program, node, topic)),
                asyncio.create_task(ask(program, node)),
            ]
            if storm.programs.index(program) < WANDERER:
                tasks.append(asyncio.create_task(serve(node)))
            nodes[program.name] = node
            try:
                await take(topic, events, seen)
            finally:
                for task in tasks:
                    task.cancel()

    nodes: dict[str, Node] = {}

    def lacking(topic: str, number: int) -> list[str]:
        """Those in the topic or above it who got no event of the rounds up to this one."""
        rounds = {(topic, "the end", 0, one) for one in range(1, number + 1)}
        return [
            program.name
            for place, program in enumerate(storm.programs)
            if place != WANDERER
            and Topic.of(TOPICS[place % len(TOPICS)]).includes(Topic.of(topic))
            and not rounds & set(latest.get(program.name, ()))
        ]

    def is_with_all(topic: str, number: int) -> bool:
        return not lacking(topic, number)

    async def finish() -> None:
        """Whatever broke is repaired: what is published from here on reaches everyone."""
        await asyncio.sleep(60)
        for topic in TOPICS:
            place = TOPICS.index(topic)
            publisher = storm.programs[place]
            for number in range(1, ROUNDS + 1):
                tried.add((topic, "the end", 0, number))
                node = nodes[publisher.name]
                with suppress(CamcastError):
                    await storm.net.spawn(
                        publisher.host, node.publish(topic, ["the end", 0, number], deadline=30)
                    )
                if await eventually(storm.net, 20, partial(is_with_all, topic, number)):
                    break
            else:
                outcome.violations.append(
                    f"{lacking(topic, ROUNDS)} get nothing of {topic} any more"
                )

    async def main() -> None:
        for number in range(MEMBERS):
            storm.add(f"member {number}", member, mortal=number >= MEMBERS // 2)
        with storm.net.rule(watch):
            await storm.begin(1.0, calm=5)
            await storm.rage()
            before = answered
            await finish()
            if answered == before:
                outcome.violations.append("nobody is answered any more")

    storm.run(main(), outcome)
    outcome.checked = sum(map(len, got.values())) + asked
    outcome.violations += wrong + watch.parasites
    for (name, _), keys in got.items():
        outcome.violations += twice(name, keys)
        if invented := set(keys) - tried:
            outcome.violations.append(f"{name} was given {sorted(invented)[:3]} of nobody")
    return outcome
