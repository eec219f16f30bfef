"""Schedules of faults, drawn by seed: loss, duplication, reordering, partitions, crashes of everything."""

from __future__ import annotations

from typing import Protocol

from overlay.contact import Contact
from tests.pubsub.archive.harness import PublisherActor, Simulation, SubscriberActor

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


def run_schedule(seed: int, *, archives: int = 1, copies: int = 1) -> Simulation:
    """A whole run: what is wrong and how much of it follows from the seed."""
    sim = Simulation(
        seed,
        archives=archives,
        loss=0.1 * (seed % 3),
        duplicate=0.1 * (seed % 2),
        latency=(0.001, 0.001 + 0.05 * (seed % 4)),
    )
    fill(sim, copies)
    publish(sim, 60)
    victims: list[Actor] = [*sim.archives, *sim.publishers, *sim.subscribers]
    break_things(sim, 12, victims)
    sim.stage.run(BUSY + QUIET)
    return sim
