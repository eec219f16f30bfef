"""How reliably events climb a hierarchy of three communities, measured and by the paper's formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import binom

from overlay.membership.modes import ModeName
from pubsub.camcast.gossip import DisseminationFactory, EagerGossip
from pubsub.camcast.parameters import Parameters
from tests.pubsub.camcast.troupe import Actor, Troupe

TOPICS = ("/", "/d", "/d/g")
"""The paper's a, d and g."""


@dataclass(frozen=True)
class Measured:
    """By community, the root first."""

    events: int
    complete: tuple[int, ...]
    """Events that every live member received."""
    reception: tuple[float, ...]
    """The mean part of the live members that received an event."""
    upward_spread: float
    """Upward messages that reached the busiest member of /d, by the mean."""
    largest_excess: int
    """By how much the largest table exceeds floor(ln N + c) + z."""

    def row(self, name: str) -> str:
        cells = [
            f"{complete / self.events:.3f}/{reception:.4f}"
            for complete, reception in zip(self.complete, self.reception, strict=True)
        ]
        return (
            f"{name:<34} {'  '.join(cells)}  upward max/mean {self.upward_spread:.1f}"
            f"  tables {self.largest_excess:+d}"
        )


def hierarchy(
    seed: int,
    mode: ModeName,
    sizes: tuple[int, ...],
    parameters: Parameters,
    loss: float,
    dissemination: DisseminationFactory = EagerGossip,
) -> Troupe:
    """Communities whose members joined one after another, with events over lossy links."""
    troupe = Troupe(
        seed, parameters=parameters, mode=mode, event_loss=loss, dissemination=dissemination
    )
    for size, topic in zip(sizes, TOPICS, strict=True):
        for _ in range(size):
            troupe.add(topic)
            troupe.stage.run_for(0.05)
    troupe.stage.run_for(40)
    return troupe


def crash(troupe: Troupe, part: float, repaired: bool) -> None:
    """Crash a part of each community, never its first members; then let the others notice, or not."""
    for topic in TOPICS:
        members = troupe.members(topic)
        for actor in members[len(members) - round(part * len(members)) :]:
            troupe.crash(actor)
            if repaired:
                for other in troupe.actors.values():
                    other.process.suspect(actor.contact.id)
    if repaired:
        troupe.stage.run_for(60)


def measure(troupe: Troupe, events: int) -> Measured:
    complete, reception = [0, 0, 0], [0.0, 0.0, 0.0]
    members = {topic: troupe.members(topic) for topic in TOPICS}
    publishers = members["/d/g"]
    for number in range(events):
        event = publishers[number * 7 % len(publishers)].publish("/d/g")
        troupe.stage.run_for(3)
        for level, topic in enumerate(TOPICS):
            received = sum(actor in members[topic] for actor in troupe.receivers(event, topic))
            complete[level] += received == len(members[topic])
            reception[level] += received / len(members[topic]) / events
    loads = [troupe.upward.get((actor.contact.id, "/d"), 0) for actor in members["/d"]]
    return Measured(
        events,
        tuple(complete),
        tuple(reception),
        max(loads) / max(sum(loads) / len(loads), 1e-9),
        max(_excess(actor) for actor in troupe.actors.values()),
    )


def _excess(actor: Actor) -> int:
    result = -100
    for community in actor.process.communities.values():
        supers = sum(len(table) for table in community.super_tables.linked())
        parameters = community.parameters
        bound = parameters.fanout(community.size) + parameters.z
        result = max(result, len(community.table) + supers - bound)
    return result


def predicted(sizes: tuple[int, ...], parameters: Parameters, loss: float) -> tuple[float, ...]:
    """Section 4.5: the product, from /d/g up, of exp(-exp(-c)) and of the probability of going up.

    The c of a lossy network is what is left of the fanout, (1 - loss) floor(ln N + c) - ln N."""
    result, product = [], 1.0
    for level in reversed(range(len(sizes))):
        size = sizes[level]
        arriving = (1 - loss) * parameters.fanout(size)
        product *= math.exp(-math.exp(math.log(size) - arriving))
        result.append(product)
        upward = min(parameters.g, size) * parameters.a
        product *= 1 - loss**upward
    return tuple(reversed(result))


def is_at_least(complete: int, events: int, probability: float) -> bool:
    """Whether so few complete events are still likely (1 in 1,000) at this probability."""
    return bool(binom.cdf(complete, events, probability) > 0.001)
