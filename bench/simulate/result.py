"""What a simulation found, community by community.

A **round** carries the event one hop further: the publisher has it in round 0, and a process that receives it
in round r forwards it in round r + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.simulate.settings import SimulationSettings


def trimmed(infections: Sequence[int]) -> tuple[int, ...]:
    """Counts by round without the last rounds in which nobody was new."""
    length = len(infections)
    while length and not infections[length - 1]:
        length -= 1
    return tuple(infections[:length])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityResult:
    """What one event did to one community."""

    level: int
    """Index in the settings' `community_sizes`: the root is the last."""
    processes: int
    """N_t, crashed ones included."""
    alive: int
    """Processes that can receive; the publisher is one of them."""
    interested: bool
    """The event's topic is this one's, or a subtopic of it."""
    infections: tuple[int, ...]
    """First receptions by round, the publisher's own in round 0, to the last round with any."""
    sent_inside: int
    """Messages sent by these processes to their group: the community, or everyone in a broadcast."""
    sent_upward: int
    """Messages sent by these processes to their super-community."""
    received: int
    """Messages that arrived at a live process of the community, from wherever."""
    received_from_below: int
    """How many of the received messages were upward messages."""
    published_here: bool
    """The publisher is one of these processes."""
    table_entries: int
    """Entries of all tables of all processes of the community."""
    largest_tables: int
    """Entries that one process keeps at most, in all of its tables."""

    @property
    def reached(self) -> int:
        """Live processes that have the event."""
        return sum(self.infections)

    @property
    def everyone(self) -> bool:
        """No live process was missed; so also where none is alive."""
        return self.reached == self.alive

    @property
    def reception(self) -> float | None:
        """The share of the live processes that was reached; None where none is alive."""
        return self.reached / self.alive if self.alive else None

    @property
    def duplicates(self) -> int:
        """Messages received by processes that had the event already."""
        return self.received - (self.reached - self.published_here)

    @property
    def parasites(self) -> int:
        """Messages received by processes that are not interested."""
        return 0 if self.interested else self.received

    @property
    def first_round(self) -> int | None:
        """The round in which the community got the event."""
        return next((at for at, count in enumerate(self.infections) if count), None)

    @property
    def last_round(self) -> int | None:
        """The round of the last first reception."""
        return len(self.infections) - 1 if self.infections else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What one event did to every community, and the settings that bring it about again."""

    settings: SimulationSettings
    communities: tuple[CommunityResult, ...]
    """The communities by level, the root last."""

    @property
    def rounds(self) -> int:
        """The round of the last first reception by an interested process."""
        return max(community.last_round or 0 for community in self._interested)

    @property
    def rounds_to_silence(self) -> int:
        """Rounds in which anything is sent: one more, as the last to receive forward in vain."""
        return self.rounds + 1

    @property
    def everyone(self) -> bool:
        """Every live process that is interested was reached."""
        return all(community.everyone for community in self._interested)

    @property
    def root_reached(self) -> bool:
        """Someone in the root community was reached."""
        return self.communities[-1].reached > 0

    @property
    def messages(self) -> int:
        """All messages sent."""
        return sum(community.sent_inside + community.sent_upward for community in self.communities)

    @property
    def parasites(self) -> int:
        """All parasite events."""
        return sum(community.parasites for community in self.communities)

    @property
    def _interested(self) -> tuple[CommunityResult, ...]:
        return self.communities[self.settings.publish_level :]
