"""Dissemination of an event that a process has for the first time (CAMCAST, figure 8).

*Infect and die*: each process handles each event once. It gossips it to floor(ln N + c) distinct members of
its community; and with probability p_sel it acts as a link, sending it as an *upward message* to each of
its super-processes with probability p_a. The root has no super-processes and only gossips. (The figure's
comparison is the wrong way round; the text, "with probability p_sel", is followed.)

Processes known to have the event, the one it came from and its publisher, are left out of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from overlay.contact import Contact
from overlay.context import Context, Randomness
from overlay.metrics import Metrics
from pubsub.camcast.messages import Announce, Fetch, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.event import EventBody, Gossip


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

    def forward(self, to: Sequence[Contact], gossip: Gossip) -> None:
        """Send a copy to each of these members of the community."""
        ...

    def tell(self, member: Contact, message: object) -> None:
        """Send a message that names events to a member, once it is sure that it is one."""
        ...

    def has_heard(self, event_id: bytes) -> bool:
        """Whether this process has had the event."""
        ...

    def give_up(self, event_id: bytes, reason: str) -> None:
        """Count an event that this process has heard of and will not get."""
        ...


class Dissemination(Protocol):
    """How an event spreads within one community once this process has it; not how it goes upward."""

    def spread(self, gossip: Gossip, body: EventBody, sender: Contact | None) -> Sequence[Contact]:
        """Take part in spreading a new event; returns the members it was sent to at once.

        `gossip` is ready to be forwarded, its hops already counted. `sender` is None for an event that is
        this process's own, or has come to it in a subtopic's community."""
        ...

    def heard_again(self, gossip: Gossip, sender: Contact) -> None:
        """A copy of an event that this process had already."""
        ...

    def receive(self, sender: Contact, message: Announce | Fetch | Prune) -> None:
        """A message from another process's strategy."""
        ...

    def stop(self) -> None:
        """The community is being left; no timer is left."""
        ...


class EagerGossip:
    """Sends the whole event to every target at once: the paper's rule, and the fewest rounds."""

    def __init__(self, neighbourhood: Neighbourhood) -> None:
        self._neighbourhood = neighbourhood

    def spread(self, gossip: Gossip, body: EventBody, sender: Contact | None) -> Sequence[Contact]:
        neighbourhood = self._neighbourhood
        known_to = (body.publisher, body.publisher if sender is None else sender.id)
        candidates = [member for member in neighbourhood.table if member.id not in known_to]
        fanout = neighbourhood.fanout
        if len(candidates) > fanout:
            candidates = neighbourhood.random.sample(candidates, fanout)
        if candidates:
            neighbourhood.forward(candidates, gossip)
        return candidates

    def heard_again(self, gossip: Gossip, sender: Contact) -> None:
        """Nothing to learn: every target gets the whole event whatever the others do."""

    def receive(self, sender: Contact, message: Announce | Fetch | Prune) -> None:
        """Nobody announces anything where all are eager."""

    def stop(self) -> None:
        """There is nothing to stop."""


DisseminationFactory = Callable[[Neighbourhood], Dissemination]


def draw_upward(
    super_table: tuple[Contact, ...],
    parameters: Parameters,
    size: float,
    random: Randomness,
    *,
    from_outside: bool,
    probability: float | None,
) -> tuple[Contact, ...]:
    """The super-processes that this process sends an event to, which may be none.

    `from_outside`: the event entered the community here, by its publisher or from a sub-community.
    `probability` is the event's own in place of p_sel. In a very small community everyone is a link and
    chooses at least one; so does whoever brings the event in, unless the parameters forbid it.
    """
    surely = parameters.is_very_small(size) or (from_outside and parameters.sure_links)
    surely = surely and probability is None
    p_sel = parameters.p_sel(size) if probability is None else probability
    if not super_table or (not surely and random.random() >= p_sel):
        return ()
    p_a = parameters.p_a
    drawn = tuple(contact for contact in super_table if random.random() < p_a)
    return drawn or ((random.choice(super_table),) if surely else ())
