"""Who has this process in a table: the part of the structured service that keeps members in enough tables.

Of members that are drawn, some few are in hardly any table by mere chance, and one in none is reached by no
event until the next drawings. So a process that takes a member out of its table tells that member, and a
member in less than a quarter of the tables that it should be in asks those in its own to take it in, as a
newcomer does; it also draws soon, and asks others. (With a half, those whom it replaces would soon be in too
few themselves, and nobody would come to rest.) Those whose tables it is in may crash unnoticed: when much
changes, it counts on those alone that speak again.
"""

from __future__ import annotations

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.membership.config import StructuredConfig
from overlay.metrics import CounterFamily

FEW = 1 / 4
"""The part of the tables that a member should be in, below which it sees to it that it is in more."""

MOST_HOLDERS = 1024
"""The most holders that are remembered, against peers that make them up."""

MOST_SECONDS = 3600.0
"""No holder is remembered for longer, whatever it says."""


class Holders:
    """The members that have this process in their tables, as far as it knows, and until when."""

    def __init__(self, context: Context, config: StructuredConfig, dropped: CounterFamily) -> None:
        self._context = context
        self._config = config
        self._dropped = dropped
        self._until: dict[PeerId, tuple[Contact, float]] = {}

    @property
    def contacts(self) -> list[Contact]:
        return [contact for contact, _ in self._until.values()]

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._until

    def are_few(self, wanted: int, size: float) -> bool:
        """Whether they are clearly fewer than `wanted`, or than the others in a community of `size`."""
        return len(self._until) < FEW * min(wanted, size - 1)

    def add(self, holder: Contact, seconds: float) -> None:
        """`holder` says that it has this process in its table for as long."""
        if len(self._until) >= MOST_HOLDERS and holder.id not in self._until:
            self._dropped.add("in_view_full")
            return
        # A little longer: the holder's next drawing is late by its jitter and its answers' time.
        seconds = 1.1 * min(max(seconds, 0.0), MOST_SECONDS) + 2 * self._config.settle_seconds
        self._until[holder.id] = (holder, self._context.now() + seconds)

    def remove(self, peer: PeerId) -> None:
        self._until.pop(peer, None)

    def clear(self) -> None:
        self._until.clear()

    def forget_late(self) -> None:
        """Forget those whose time is over."""
        now = self._context.now()
        self._until = {peer: kept for peer, kept in self._until.items() if kept[1] > now}

    def doubt(self) -> float:
        """Many are lost, so every holder that lives draws soon, and says so; the silent have crashed. The
        seconds until that is known."""
        config = self._config
        seconds = config.shortest_redraw_seconds + 2 * config.settle_seconds
        until = self._context.now() + seconds
        for peer, (contact, promised) in self._until.items():
            self._until[peer] = (contact, min(promised, until))
        return seconds
