"""Schedules of faults, drawn by seed: loss, duplication, reordering, partitions, crashes of everything."""

from __future__ import annotations

import random
from typing import Protocol

from overlay.contact import Contact
from pubsub.archive.protocol.config import DurableConfig
from tests.pubsub.archive.harness import CONFIG, PublisherActor, Simulation, SubscriberActor

BUSY = 20.0
"""Seconds in which events are published and faults happen."""

QUIET = 60.0
"""Seconds in which all is up and well again; then everything must have arrived."""


class Actor(Protocol):
    contact: Contact

    def start(self) -> None: ...
    def crash(self) -> None: ...


def fill(sim: Simulation, copies: int = 1) -> None:
    """Two publishers, and a subscriber of each kind."""
    sim.publishers = [PublisherActor(sim, 110, copies), PublisherActor(sim, 111, copies)]
    sim.subscribers = [
        SubscriberActor(sim, 120, "exact", ordered=True, remembers=True),
        SubscriberActor(sim, 121, "plain", ordered=True, remembers=False),
        SubscriberActor(sim, 122, "quick", ordered=False, remembers=False),
    ]


def add_newcomers(sim: Simulation, count: int) -> None:
    """Subscribers that come while events are published and begin with what comes then; in their first moments
    archives fail as often as not, each when it has just registered one of them."""
    chance = random.Random(f"{sim.stage.seed} newcomers")

    def come(number: int) -> None:
        newcomer = SubscriberActor(
            sim, 130 + number, f"new {number}", ordered=True, remembers=True, since="now"
        )
        sim.subscribers.append(newcomer)
        if number % 2 and len(sim.archives) > 1:
            kill_when_registered(sim, newcomer, chance.uniform(0, 0.04), chance.uniform(0.1, 6))

    for number in range(count):
        sim.stage.call_at(chance.uniform(1, BUSY - 5), lambda number=number: come(number))  # type: ignore[misc]


def kill_when_registered(
    sim: Simulation, subscriber: SubscriberActor, after: float, down: float
) -> None:
    """Crash the archive that registers a subscriber, so long after; it comes back."""
    registered = subscriber.core._on_registered

    def killing(refused: str) -> None:
        registered(refused)
        used = subscriber.core.archive
        victim = next((one for one in sim.archives if used and one.contact.id == used.id), None)
        if victim is not None and victim.up:
            subscriber.core._on_registered = registered
            sim.stage.call_at(sim.stage.now + after, victim.crash)
            sim.stage.call_at(
                sim.stage.now + after + down, lambda: None if victim.up else victim.start()
            )

    subscriber.core._on_registered = killing


def publish(sim: Simulation, events: int) -> None:
    for publisher in sim.publishers:
        for _ in range(events):
            sim.stage.call_at(sim.chance.uniform(0.5, BUSY), publisher.publish)


def break_things(sim: Simulation, faults: int, victims: list[Actor]) -> None:
    """Crash, restart and partition, all at times drawn by the seed; everything is well at the end."""
    chance, stage = sim.chance, sim.stage

    def crash(victim: Actor, down: float) -> None:
        if stage.is_up(victim.contact):
            victim.crash()
            stage.call_at(stage.now + down, lambda: restart(victim))

    def restart(victim: Actor) -> None:
        if not stage.is_up(victim.contact):
            victim.start()

    def part() -> None:
        everyone = [*sim.archives, *sim.publishers, *sim.subscribers]
        side = [one.contact for one in everyone if chance.random() < 0.5]
        stage.partition(side)
        stage.call_at(stage.now + chance.uniform(0.1, 8), stage.heal)

    for _ in range(faults):
        time = chance.uniform(0.5, BUSY)
        if victims and chance.random() < 0.75:
            victim, down = chance.choice(victims), chance.uniform(0.01, 6)
            stage.call_at(time, lambda victim=victim, down=down: crash(victim, down))  # type: ignore[misc]
        else:
            stage.call_at(time, part)
    stage.call_at(BUSY + 10, stage.heal)


def part_archives(sim: Simulation, times: int) -> None:
    """Have archives out of touch, of which then one fails for a while: so publishers and subscribers go on at
    another one that lacks what they had."""
    chance, stage = random.Random(f"{sim.stage.seed} apart"), sim.stage

    def part() -> None:
        sim.apart = True
        stage.call_at(stage.now + chance.uniform(2, 5), fail)

    def fail() -> None:
        sim.apart = False
        victim = chance.choice(sim.archives)
        if victim.up:
            victim.crash()
            stage.call_at(
                stage.now + chance.uniform(5, 8), lambda: None if victim.up else victim.start()
            )

    for _ in range(times):
        stage.call_at(chance.uniform(1, BUSY - 5), part)


def run_schedule(
    seed: int,
    *,
    archives: int = 1,
    copies: int = 1,
    newcomers: int = 0,
    quarrels: int = 0,
    deaf: float = 0.0,
    config: DurableConfig = CONFIG,
) -> Simulation:
    """A whole run: what is wrong and how much of it follows from the seed."""
    sim = Simulation(
        seed,
        archives=archives,
        loss=0.1 * (seed % 3),
        duplicate=0.1 * (seed % 2),
        latency=(0.001, 0.001 + 0.05 * (seed % 4)),
        skew=config.skew,
        config=config,
    )
    sim.deaf = deaf
    fill(sim, copies)
    add_newcomers(sim, newcomers)
    part_archives(sim, quarrels)
    publish(sim, 60)
    victims: list[Actor] = [*sim.archives, *sim.publishers, *sim.subscribers]
    break_things(sim, 12, victims)
    sim.stage.run(BUSY + QUIET)
    return sim
