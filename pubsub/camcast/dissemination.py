"""Dissemination of an event that a process has for the first time (CAMCAST, figure 8).

*Infect and die*: each process handles each event once. It gossips it to floor(ln N + c) distinct members of
its community; how it goes on to super-communities is told in `pubsub.camcast.upward`.

Processes known to have the event, the one it came from and its publisher, are left out of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness
from overlay.metrics import Metrics
from pubsub.camcast.messages import Announce, Fetch, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.event import Gossip, NewEvent


class Neighbourhood(Protocol):
    """What a dissemination strategy sees of its community."""

    name: str
    """The community's topic."""

    @property
    def context(self) -> Context:
        """For messages other than events and their ids; they arrive."""
        ...

    @property
    def random(self) -> Randomness: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def table(self) -> tuple[Contact, ...]:
        """The topic table."""
        ...

    @property
    def fanout(self) -> int:
        """floor(ln N + c) at present."""
        ...

    def forward(self, to: Sequence[Contact], gossips: Sequence[Gossip]) -> None:
        """Send a copy of each event to each of these members of the community."""
        ...

    def announce(self, to: Sequence[Contact], announcement: Announce) -> None:
        """Tell each of these members of events, once it is sure that it is one."""
        ...

    def has_heard(self, event_id: bytes) -> bool:
        """Whether this process has had the event."""
        ...

    def give_up(self, event_id: bytes, reason: str) -> None:
        """Count an event that this process has heard of and will not get."""
        ...


class Dissemination(Protocol):
    """How an event spreads within one community once this process has it; not how it goes upward."""

    def spread(self, events: Sequence[NewEvent], sender: Contact | None) -> Sequence[Contact]:
        """Take part in spreading new events; returns the members that the last one was sent to at once.

        They are ready to be forwarded, their hops already counted. `sender` is None for events that are
        this process's own, or have come to it in a subtopic's community."""
        ...

    def heard_again(self, gossip: Gossip, sender: Contact) -> None:
        """A copy of an event that this process had already."""
        ...

    def receive(self, sender: Contact, message: Announce | Fetch | Prune) -> None:
        """A message from another process's strategy."""
        ...

    def reconfigure(self) -> None:
        """The community's parameters have changed."""
        ...

    def stop(self) -> None:
        """The community is being left; no timer is left."""
        ...


class EagerGossip:
    """Sends the whole event to every target at once: the paper's rule, and the fewest rounds."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        self._neighbourhood = neighbourhood

    def spread(self, events: Sequence[NewEvent], sender: Contact | None) -> Sequence[Contact]:
        targets: Sequence[Contact] = ()
        for gossip, body in events:
            targets = self._targets(body.publisher, sender)
            if targets:
                self._neighbourhood.forward(targets, (gossip,))
        return targets

    def _targets(self, publisher: PeerId, sender: Contact | None) -> list[Contact]:
        neighbourhood = self._neighbourhood
        known_to = (publisher, publisher if sender is None else sender.id)
        candidates = [member for member in neighbourhood.table if member.id not in known_to]
        fanout = neighbourhood.fanout
        if len(candidates) > fanout:
            candidates = neighbourhood.random.sample(candidates, fanout)
        return candidates

    def heard_again(self, gossip: Gossip, sender: Contact) -> None:
        """Nothing to learn: every target gets the whole event whatever the others do."""

    def receive(self, sender: Contact, message: Announce | Fetch | Prune) -> None:
        """Nobody announces anything where all are eager."""

    def reconfigure(self) -> None:
        """Parameters are looked up with every event."""

    def stop(self) -> None:
        """There is nothing to stop."""


DisseminationFactory = Callable[[Neighbourhood], Dissemination]
