"""One event through communities that gossip apart: CAMCAST, and multicast (alternative (b)).

Section 3.5 of the paper, in synchronous rounds. In multicast nothing climbs; the publisher holds a
table of every community concerned and starts the gossip in each.
"""

from __future__ import annotations

import numpy as np

from bench.simulate.gossip_round import climb, gossip
from bench.simulate.outbox import CRASHED, REACHED, crash, deliver, drop
from bench.simulate.randomness import (
    CRASHES,
    PUBLISHER,
    SUPER_TABLES,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    chance32,
    chance64,
    stream_keys,
)
from bench.simulate.result import CommunityResult, trimmed
from bench.simulate.rows import LANES, draw_row
from bench.simulate.settings import Protocol, SimulationSettings
from bench.simulate.tables import further_entries, topic_tables


class CommunityRun:
    """One community during a run."""

    def __init__(self, settings: SimulationSettings, level: int) -> None:
        size = settings.community_sizes[level]
        self.settings = settings
        self.level = level
        self.keys = stream_keys(settings.seed, settings.tables_from, level)
        self.state = np.empty(size + 1, np.uint8)
        self.queue = np.empty(size + 1, np.uint32)
        self.tables = topic_tables(settings, [size], level)
        own = self.tables.fanouts
        self.fanout = int(own.max()) if len(own) else settings.fanout(size)
        self.block = np.zeros((max(self.fanout, settings.z, 1), LANES), np.uint32)
        self.words = np.zeros(3 * LANES, np.uint64)
        self.loss = chance32(settings.loss)
        self.suspicion = chance32(settings.suspicion)
        self.link_chance = chance64(settings.link_probability(size))
        self.entry_chance = chance32(settings.a / settings.z)
        self.alive = crash(self.state, self.keys[CRASHES], chance64(settings.stillborn))
        self.head = self.end = self.tail = 0
        self.infections: list[int] = []
        self.sent = self.sent_upward = self.received = self.from_below = 0
        self.publisher = -1

    def publish(self) -> None:
        """Draw a publisher, who is alive whatever fails, and give it the event."""
        size = len(self.state) - 1
        draw_row(self.block, 0, 1, self.keys[PUBLISHER], 0, 0, size, size)
        self.publisher = int(self.block[0, 0])
        self.alive += int(self.state[self.publisher] == CRASHED)
        self.state[self.publisher] = REACHED
        self.queue[0] = self.publisher
        self.tail = 1

    def begin_round(self) -> int:
        """Note who was reached in the last round, to forward in this one; how many."""
        self.head, self.end = self.end, self.tail
        self.infections.append(self.end - self.head)
        return self.end - self.head

    def gossip(self) -> None:
        """Forward inside the community."""
        if self.head == self.end:
            return
        self.tail, sent, received = gossip(
            self.state,
            self.queue,
            self.head,
            self.end,
            self.tail,
            self.fanout,
            self.keys,
            self.loss,
            self.suspicion,
            self.block,
            self.words,
            self.tables,
        )
        self.sent += sent
        self.received += received

    def climb(self, above: CommunityRun) -> None:
        """Forward to the super-community."""
        if self.head == self.end:
            return
        above.tail, sent, received = climb(
            self.queue,
            self.head,
            self.end,
            above.state,
            above.queue,
            above.tail,
            self.settings.z,
            self.keys,
            self.link_chance,
            self.entry_chance,
            self.loss,
            self.suspicion,
            self.block,
        )
        self.sent_upward += sent
        above.received += received
        above.from_below += received

    def start_from_outside(self, publisher: int) -> None:
        """Get the event from a publisher of another community, who has a table of this one."""
        size = len(self.state) - 1
        sender = np.array([publisher], np.uint32)
        key = self.keys[SUPER_TABLES]
        count = draw_row(self.block, 0, self.fanout, key, publisher, 0, size, size)
        doubt, lost = self.keys[UPWARD_SUSPICIONS], self.keys[UPWARD_LOSSES]
        self.sent += drop(self.block, sender, count, size, doubt, self.suspicion)
        drop(self.block, sender, count, size, lost, self.loss)
        self.tail, arrived = deliver(self.block, 1, count, self.state, self.queue, self.tail)
        self.received += arrived

    def result(self) -> CommunityResult:
        """What happened here."""
        settings, level = self.settings, self.level
        size = settings.community_sizes[level]
        own, further = self.tables.entries(size, self.fanout), further_entries(settings, level)
        return CommunityResult(
            level=level,
            processes=size,
            alive=self.alive,
            interested=level >= settings.publish_level,
            infections=trimmed(self.infections),
            sent_inside=self.sent,
            sent_upward=self.sent_upward,
            received=self.received,
            received_from_below=self.from_below,
            published_here=self.publisher >= 0,
            table_entries=own + size * further,
            largest_tables=self.tables.largest(self.fanout) + further,
        )


def run_communities(settings: SimulationSettings) -> list[CommunityResult]:
    """Run one event to its end; communities below the publisher's see nothing of it."""
    runs = [CommunityRun(settings, level) for level in range(len(settings.community_sizes))]
    concerned = runs[settings.publish_level :]
    concerned[0].publish()
    first = True
    while sum([run.begin_round() for run in concerned]):
        for run, above in zip(concerned, [*concerned[1:], None], strict=True):
            run.gossip()
            if above is None:
                continue
            if settings.protocol is Protocol.CAMCAST:
                run.climb(above)
            elif first:
                above.start_from_outside(concerned[0].publisher)
        first = False
    return [run.result() for run in runs]
