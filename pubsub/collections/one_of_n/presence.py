"""Who is there to give and take: in the view, or out of it for no longer than a moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from overlay.contact import PeerId
from overlay.context import Timer


class Presence:
    """A core. A participant is gone when it has left, runs in another incarnation, or is out of the view for
    `gone_after` seconds."""

    def __init__(
        self,
        gone_after: float,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when somebody may count as gone: `update` is to be called again."""
        self._gone_after = gone_after
        self._now = now
        self._call_later = call_later
        self._on_change = on_change
        self._present: dict[PeerId, int] = {}
        self._out_since: dict[PeerId, float] = {}
        self._timer: Timer | None = None

    def update(
        self, view: Collection[PeerId], incarnations: Mapping[PeerId, int]
    ) -> dict[PeerId, int]:
        """Those who are there, with their incarnations; `incarnations` has all who have not left."""
        now, inside = self._now(), frozenset(view)
        out_since = {
            peer: self._out_since.get(peer, now)
            for peer, incarnation in self._present.items()
            if peer not in inside and incarnations.get(peer) == incarnation
        }
        waiting = {peer: s for peer, s in out_since.items() if now - s < self._gone_after}
        self._out_since = waiting
        self._present = {p: i for p, i in incarnations.items() if p in inside or p in waiting}
        if waiting and self._timer is None:
            wait = min(waiting.values()) + self._gone_after - now
            self._timer = self._call_later(max(wait, 0.001), self._ring)
        return dict(self._present)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._on_change()
