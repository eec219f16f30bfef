"""The number of a topic's members, estimated from the density of a few dozen leaves."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from overlay.contact import PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.explorer import Explorer
from overlay.directory.path import Visit
from overlay.directory.peers import Peers
from overlay.directory.tree import POINT_BITS

SURVEY_POINTS = 32
"""Topics of up to about this many leaves are counted in full; of larger ones, this many leaves are."""


@dataclass(frozen=True, slots=True)
class TopicSize:
    """An estimate and its relative standard error; an error of 0.0 means that all were counted."""

    members: float
    relative_error: float

    def __float__(self) -> float:
        return self.members

    def __int__(self) -> int:
        return round(self.members)


async def topic_size(
    topic: PeerId, peers: Peers, explorer: Explorer, config: DirectoryConfig
) -> TopicSize:
    """Count the members of a topic.

    Points are hashes, so the number c of members in a share f of the tree is Poisson-distributed, and the
    relative standard error of c / f is sqrt((1 - f) / c).
    """
    visit = Visit(topic, peers.random.getrandbits(32), 0)
    await explorer.introduce(visit, peers.random.getrandbits(POINT_BITS))
    survey = await explorer.survey(visit, SURVEY_POINTS, config.size_life)
    missed = max(0.0, 1.0 - survey.share)
    return TopicSize(survey.size, sqrt(missed / survey.counted) if survey.counted else 0.0)
