"""The failure detector of one distributor on the stage: it watches the members of the view and nobody else.

As a node's does, it tells each suspicion and its end once, forgets a peer that leaves the view in whatever
state it was, and begins anew with one that comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from pubsub.distributors.protocol.distributor import DistributorCore
from pubsub.distributors.protocol.view import View

NOTICE_AFTER = 3.0
"""Seconds until a crash or a partition is suspected."""


@dataclass
class _Watch:
    peer: Contact
    unreachable_since: float | None = None
    suspected: bool = False


class Watching:
    """Whom one distributor watches."""

    def __init__(self, core: DistributorCore) -> None:
        self._core = core
        self._watches: dict[PeerId, _Watch] = {}

    def change_view(self, view: View) -> None:
        me, before = self._core.membership.me, self._watches
        members = view.members
        self._watches = {
            one.id: before.get(one.id, _Watch(one.contact)) for one in members if one.id != me.id
        }

    def look(
        self, now: float, reaches: Callable[[Contact], bool], is_wrong: Callable[[Contact], bool]
    ) -> None:
        """`is_wrong`: whether it suspects a peer that can be reached."""
        for watch in list(self._watches.values()):
            if self._watches.get(watch.peer.id) is not watch:
                continue  # what was told of another peer has changed the view
            if reaches(watch.peer):
                watch.unreachable_since = None
                self._tell(watch, is_wrong(watch.peer))
            elif watch.unreachable_since is None:
                watch.unreachable_since = now
            elif now - watch.unreachable_since >= NOTICE_AFTER:
                self._tell(watch, True)

    def _tell(self, watch: _Watch, suspected: bool) -> None:
        if suspected != watch.suspected:
            watch.suspected = suspected
            tell = self._core.membership.suspect if suspected else self._core.membership.restore
            tell(watch.peer.id)
