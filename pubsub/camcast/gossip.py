"""Dissemination of a block that a process has for the first time (CAMCAST, figure 8).

*Infect and die*: each process handles each event once. It gossips the block to floor(ln N + c) distinct
members of its community; how it goes on to super-communities is told in `pubsub.camcast.upward`. The targets
are drawn for each block: events that were published in one turn share their fate, and events that were
published one by one are blocks of one, with a draw each, as in the paper.

Processes known to have the block, the one it came from and its publisher, are left out of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness
from overlay.metrics import Metrics
from pubsub.camcast.messages import AnnounceBlocks, FetchBlocks, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.event import Gossip


class Outlook(NamedTuple):
    """Whom a process may gossip to."""

    table: tuple[Contact, ...]
    """The topic table, without members that may only publish."""
    fanout: int
    """floor(ln N + c)."""


class Neighbourhood(Protocol):
    """What a dissemination strategy sees of its community."""

    name: str
    """The community's topic."""

    @property
    def context(self) -> Context:
        """The context for messages other than events and their ids; these messages arrive."""
        ...

    @property
    def random(self) -> Randomness: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def metrics(self) -> Metrics: ...

    def outlook(self, now: float) -> Outlook:
        """The topic table and the fanout; the same object for as long as neither has changed."""
        ...

    def forward(self, to: Sequence[Contact], gossip: Gossip) -> bool:
        """Send a copy of the block to each of these members of the community.

        Whether each has left, and arrives unless the member is gone."""
        ...

    def withdraw(self, to: Contact, source: bytes) -> list[range]:
        """Take back copies of a run's blocks that have not left for a member: of which events."""
        ...

    def announce(self, to: Sequence[Contact], announcement: AnnounceBlocks) -> None:
        """Tell each of these members of events, once it is sure that it is one."""
        ...

    def missing(self, source: bytes, numbers: range) -> Sequence[range]:
        """Which of these events this process has not had."""
        ...

    def give_up(self, source: bytes | None, numbers: Sequence[range], reason: str) -> None:
        """Count events, or what a peer says of them, that are dropped."""
        ...

    def lose(self, source: bytes, numbers: Sequence[range], reason: str) -> None:
        """Count events that this process has heard of and will not get, and tell the subscriptions."""
        ...


class Dissemination(Protocol):
    """How an event spreads within one community once this process has it; not how it goes upward."""

    def spread(self, gossip: Gossip, sender: Contact | None) -> Sequence[Contact]:
        """Take part in spreading a block with new events; returns the members that it was sent to at once.

        The block is ready to be forwarded, its hops already counted. `sender` is None for a block that is
        this process's own, or has come to it in a subtopic's community."""
        ...

    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None:
        """A copy of a block of which this process had every event, from within the community."""
        ...

    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        """A message from another process's strategy."""
        ...

    def gone(self, peer: PeerId) -> None:
        """A process is not a member, or is not to be sent events."""
        ...

    def reconfigure(self) -> None:
        """The community's parameters have changed."""
        ...

    def stop(self) -> None:
        """The community is being left; no timer is left."""
        ...


class EagerGossip:
    """Sends the whole block to every target at once: the paper's rule, and the fewest rounds."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        self._neighbourhood = neighbourhood

    def spread(self, gossip: Gossip, sender: Contact | None) -> Sequence[Contact]:
        targets = self._targets(gossip.block.publisher, sender)
        if targets:
            self._neighbourhood.forward(targets, gossip)
        return targets

    def _targets(self, publisher: PeerId, sender: Contact | None) -> list[Contact]:
        neighbourhood = self._neighbourhood
        table, fanout = neighbourhood.outlook(neighbourhood.context.now())
        known_to = (publisher, publisher if sender is None else sender.id)
        candidates = [member for member in table if member.id not in known_to]
        if len(candidates) > fanout:
            candidates = neighbourhood.random.sample(candidates, fanout)
        return candidates

    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None:
        """Nothing to learn: every target gets the whole block whatever the others do."""

    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        """Nobody announces anything where all are eager."""

    def gone(self, peer: PeerId) -> None:
        """Targets are drawn from the table."""

    def reconfigure(self) -> None:
        """Parameters are looked up with every block."""

    def stop(self) -> None:
        """There is nothing to stop."""


DisseminationFactory = Callable[[Neighbourhood], Dissemination]
