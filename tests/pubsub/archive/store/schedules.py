"""Batches of changes by seed, such as archives write."""

from __future__ import annotations

import random

from pubsub.archive.store import (
    AdvanceSync,
    Catenate,
    Change,
    Deregister,
    Drop,
    EntityGap,
    ForgetTopic,
    GapsTold,
    Note,
    PutEntity,
    Reserve,
    StoredEvent,
)
from pubsub.reliable.numbers import Span

TOPICS = ("/soccer", "/soccer/italy")
ENTITIES = ("anna", "bert", "carl")
PUBLISHERS = (b"P" * 28, b"Q" * 28)


def event(
    sequence: int,
    *,
    topic: str = "/soccer",
    catenation: int | None = None,
    publisher: bytes = PUBLISHERS[0],
    time: float | None = None,
    body: bytes = b"goal",
    destinations: tuple[str, ...] = ("anna",),
) -> StoredEvent:
    number = sequence if catenation is None else catenation
    id = publisher[:8] + number.to_bytes(8, "big")
    at = float(sequence) if time is None else time
    return StoredEvent(topic, sequence, id, publisher, number, at, body, destinations)


class Schedule:
    """Makes one batch after the other; the numbers of events and publishers count up, with gaps."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._last = dict.fromkeys(TOPICS, 0)
        self._catenations = {(topic, publisher): 0 for topic in TOPICS for publisher in PUBLISHERS}

    def batch(self) -> list[Change]:
        return [self.change() for _ in range(self.chance.randrange(1, 8))]

    def change(self) -> Change:
        chance, topic = self.chance, self.chance.choice(TOPICS)
        entity = chance.choice(ENTITIES)
        if chance.random() < 0.6:
            return self.event(topic)
        last = self._last[topic]
        kind = chance.randrange(15)
        if kind == 0:
            self._last[topic] += chance.randrange(4)
            return Reserve(topic, self._last[topic])
        if kind == 1 and chance.random() < 0.2:
            return ForgetTopic(topic)
        if kind == 2:
            return Deregister(topic, entity)
        if kind in (3, 4):
            return PutEntity(topic, entity, last, chance.randbytes(5))
        if kind == 7:
            return AdvanceSync(topic, entity, *(chance.randrange(last + 1) for _ in range(2)))
        if kind == 8:
            return Catenate(topic, chance.choice(PUBLISHERS), chance.randrange(20))
        if kind == 11:
            value = chance.choice((None, chance.randbytes(4)))
            return Note(topic, chance.choice(("a/1", "a/2", "b/1")), value)
        if kind == 12:
            span = self.span(topic)
            return Drop(topic, (span,), (self.gap(entity, span),) * chance.randrange(2))
        if kind == 13:
            return GapsTold(topic, entity)
        return PutEntity(topic, entity, last, b"")

    def gap(self, entity: str, span: Span) -> EntityGap:
        if self.chance.random() < 0.2:
            return EntityGap.unnamed(entity, span, "lost")
        first = self.chance.randrange(20)
        return EntityGap(
            entity, span, self.chance.choice(PUBLISHERS), first, first + 2, "forgotten"
        )

    def event(self, topic: str) -> StoredEvent:
        publisher = self.chance.choice(PUBLISHERS)
        self._last[topic] += 1 if self.chance.random() < 0.9 else 3
        self._catenations[topic, publisher] += 1
        return event(
            self._last[topic],
            topic=topic,
            catenation=self._catenations[topic, publisher],
            publisher=publisher,
            time=self.chance.uniform(0, 100),
            body=self.chance.randbytes(self.chance.choice((0, 10, 200))),
            destinations=tuple(e for e in ENTITIES if self.chance.random() < 0.5),
        )

    def go_on_above(self, topic: str, last: int) -> None:
        """Numbers up to `last` have been used by somebody else."""
        self._last[topic] = max(self._last[topic], last)

    def span(self, topic: str) -> Span:
        first = self.chance.randrange(self._last[topic] + 2)
        return Span(first, first + self.chance.randrange(5))
