"""Dissemination of a block that a process has for the first time (CAMCAST, figure 8).

*Infect and die*: each process handles each event once. It gossips the block to floor(ln N + c) distinct
members of its community; how it goes on to super-communities is told in `pubsub.camcast.upward`. The targets
are drawn for each block: events that were published in one turn share their fate, and events that were
published one by one are blocks of one, with a draw each, as in the paper.

Processes known to have the block, the one it came from and its publisher, are left out of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from overlay.contact import Contact, PeerId
from pubsub.camcast.messages import AnnounceBlocks, FetchBlocks, Prune
from pubsub.event import Gossip

if TYPE_CHECKING:
    from pubsub.camcast.community import Community


class Outlook(NamedTuple):
    """Whom a process may gossip to."""

    table: tuple[Contact, ...]
    """The topic table, without members that may only publish."""
    fanout: int
    """floor(ln N + c)."""


class EagerGossip:
    """Sends the whole block to every target at once: the paper's rule, and the fewest rounds.

    Also what a community asks of any strategy: how an event spreads within it once this process has it,
    not how it goes upward. What others' strategies say is nothing to this one."""

    def __init__(self, community: Community) -> None:
        self._community = community

    def spread(self, gossip: Gossip, sender: Contact | None) -> Sequence[Contact]:
        """Take part in spreading a block with new events; returns the members that it was sent to at once.

        The block is ready to be forwarded, its hops already counted. `sender` is None for a block that is
        this process's own, or has come to it in a subtopic's community."""
        targets = self._targets(gossip.block.publisher, sender)
        if targets:
            self._community.forward(targets, gossip)
        return targets

    def _targets(self, publisher: PeerId, sender: Contact | None) -> list[Contact]:
        community = self._community
        table, fanout = community.outlook(community.context.now())
        known_to = (publisher, publisher if sender is None else sender.id)
        candidates = [member for member in table if member.id not in known_to]
        if len(candidates) > fanout:
            candidates = community.random.sample(candidates, fanout)
        return candidates

    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None:
        """A copy of a block of which this process had every event, from within the community."""

    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        """A message from another process's strategy."""

    def gone(self, peer: PeerId) -> None:
        """A process is not a member, or is not to be sent events."""

    def reconfigure(self) -> None:
        """The community's parameters have changed."""

    def stop(self) -> None:
        """The community is being left; no timer is left."""


DisseminationFactory = Callable[["Community"], EagerGossip]
