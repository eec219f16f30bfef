"""Upward messages: how events go from a community to its super-communities (CAMCAST, figure 8).

A process that has a block of events for the first time acts as a link with probability p_sel, and then sends
it as an *upward message* to each of its super-processes with probability p_a. The root has no
super-processes. (The figure's comparison is the wrong way round; the text, "with probability p_sel", is
followed.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from pubsub.camcast.leases import Leases
from pubsub.camcast.links import SuperTable, SuperTables
from pubsub.camcast.parameters import Parameters
from pubsub.event import Gossip

if TYPE_CHECKING:
    from pubsub.camcast.community import Community


class Upward:
    """The upward links of one community on one process."""

    def __init__(self, community: Community, tables: SuperTables, leases: Leases) -> None:
        self._community = community
        self._tables = tables
        self._leases = leases
        self._sent = community.metrics.counter("events_upward", "Copies sent to a super-community.")

    def send(self, gossip: Gossip, from_outside: bool) -> Sequence[tuple[str, Contact]]:
        """Draw where a block goes; its super-processes, with their topics.

        `from_outside`: it entered the community here, by its publisher or from a sub-community."""
        drawn: list[tuple[str, Contact]] = []
        for table in self._tables.linked():
            for contact in self._send_one(gossip, table, from_outside):
                drawn.append((table.topic.name, contact))
        return drawn

    def _send_one(self, gossip: Gossip, table: SuperTable, from_outside: bool) -> Sequence[Contact]:
        community = self._community
        drawn = draw_upward(
            table.contacts,
            community.parameters,
            community.steady_size,
            community.random,
            from_outside=from_outside,
            probability=gossip.block.upward,
        )
        if drawn:
            up = gossip._replace(community=table.topic.name, upward=True)
            tried = {contact.id: None for contact in drawn}
            for contact in drawn:
                self._send_to(contact, up, table, tried)
        return drawn

    def _send_to(
        self, to: Contact, up: Gossip, table: SuperTable, tried: dict[PeerId, None]
    ) -> None:
        """Send an upward message; if the super-process turns out to be gone, to another one instead."""
        community = self._community

        def confirmed(alive: bool) -> None:
            if alive or community.is_stopped:
                return
            others = [contact for contact in table.contacts if contact.id not in tried]
            if not others:
                community.give_up(up.block.source, (up.block.numbers,), "no_super_process")
                return
            other = community.random.choice(others)
            tried[other.id] = None
            self._send_to(other, up, table, tried)

        block = up.block
        self._sent.value += block.count
        community.record(
            "upward",
            block.source,
            (block.numbers,),
            peer=to.id,
            hops=up.hops,
            detail=up.community,
        )
        self._leases.send_surely(to, up, confirmed)


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
    chooses at least one; so does the process that brings the event in, unless the parameters forbid it.
    """
    surely = parameters.is_very_small(size) or (from_outside and parameters.sure_links)
    surely = surely and probability is None
    p_sel = parameters.p_sel(size) if probability is None else probability
    if not super_table or (not surely and random.random() >= p_sel):
        return ()
    p_a = parameters.p_a
    drawn = tuple(contact for contact in super_table if random.random() < p_a)
    return drawn or ((random.choice(super_table),) if surely else ())
