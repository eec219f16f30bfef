"""Up to 64 CAMCAST events through the same tables at once, a bit a repetition."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bench.simulate.bits import PAD, PLANES, REPETITIONS, Planes, counts, mask_digits
from bench.simulate.randomness import (
    CRASHES,
    PUBLISHER,
    chance64,
    derived,
    stream_keys,
)
from bench.simulate.result import CommunityResult, trimmed
from bench.simulate.rows import LANES
from bench.simulate.settings import SimulationSettings
from bench.simulate.tables import further_entries, topic_tables
from bench.simulate.word_round import (
    ALIVE,
    COUNTS,
    INBOX,
    RECEIVED,
    RECEIVED_FROM_BELOW,
    SENT,
    SENT_UPWARD,
    WORDS,
    climb_words,
    count_alive,
    crash_words,
    gossip_words,
    settle,
)


class WordRun:
    """One community during 64 runs."""

    def __init__(self, settings: SimulationSettings, level: int) -> None:
        size = settings.community_sizes[level]
        self.settings = settings
        self.level = level
        self.keys = stream_keys(settings.seed, settings.tables_from, level)
        self.fanout = settings.fanout(size)
        self.tables = topic_tables(settings, [size], level)
        self.group = np.empty((size, WORDS), np.uint64)
        crash_words(self.group, self.keys[CRASHES], chance64(settings.stillborn))
        self.planes = np.zeros((COUNTS, PLANES), np.uint64)
        self.block = np.zeros((max(self.fanout, settings.z, 1), LANES), np.uint32)
        padded = self.fanout // PAD * PAD + PAD
        self.row, self.masks, self.states = np.zeros((3, padded), np.uint64)
        self.infections: list[npt.NDArray[np.int64]] = []

    def publish(self) -> None:
        """Give the event to a live process of each repetition, drawn uniformly."""
        size = len(self.group)
        for repetition in range(REPETITIONS):
            bit = np.uint64(1 << repetition)
            publisher = derived(int(self.keys[PUBLISHER]), repetition) % size
            self.group[publisher, ALIVE] |= bit
            self.group[publisher, INBOX] |= bit

    def settle(self) -> bool:
        """End a round, and note how many are new in each repetition; whether anyone is."""
        planes = np.zeros(PLANES, np.uint64)
        anyone = settle(self.group, planes)
        self.infections.append(counts(planes))
        return bool(anyone)

    def gossip(self) -> None:
        """Forward inside the community."""
        gossip_words(
            self.group,
            self.fanout,
            self.keys,
            mask_digits(self.settings.loss),
            mask_digits(self.settings.suspicion),
            self.planes,
            self.row,
            self.masks,
            self.states,
            self.block,
            self.tables,
        )

    def climb(self, above: WordRun) -> None:
        """Forward to the super-community."""
        climb_words(
            self.group,
            above.group,
            self.settings.z,
            self.keys,
            chance64(self.settings.link_probability(len(self.group))),
            chance64(self.settings.a / self.settings.z),
            chance64(self.settings.loss),
            chance64(self.settings.suspicion),
            self.planes,
            above.planes,
            self.block,
        )

    def results(self) -> list[CommunityResult]:
        """What happened here, in each repetition."""
        settings, level, size = self.settings, self.level, len(self.group)
        alive_planes: Planes = np.zeros(PLANES, np.uint64)
        count_alive(self.group, alive_planes)
        alive = counts(alive_planes).tolist()
        found = [counts(planes).tolist() for planes in self.planes]
        own, further = self.tables.entries(size, self.fanout), further_entries(settings, level)
        return [
            CommunityResult(
                level=level,
                processes=size,
                alive=alive[repetition],
                interested=level >= settings.publish_level,
                infections=trimmed([int(new[repetition]) for new in self.infections]),
                sent_inside=found[SENT][repetition],
                sent_upward=found[SENT_UPWARD][repetition],
                received=found[RECEIVED][repetition],
                received_from_below=found[RECEIVED_FROM_BELOW][repetition],
                published_here=level == settings.publish_level,
                table_entries=own + size * further,
                largest_tables=self.tables.largest(self.fanout) + further,
            )
            for repetition in range(REPETITIONS)
        ]


def run_words(settings: SimulationSettings) -> list[list[CommunityResult]]:
    """Run 64 events to their end; the communities of each."""
    runs = [WordRun(settings, level) for level in range(len(settings.community_sizes))]
    concerned = runs[settings.publish_level :]
    concerned[0].publish()
    while sum([run.settle() for run in concerned]):
        for run, above in zip(concerned, [*concerned[1:], None], strict=True):
            run.gossip()
            if above is not None:
                run.climb(above)
    return [list(communities) for communities in zip(*[run.results() for run in runs], strict=True)]
