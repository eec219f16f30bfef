"""A lookup on several paths that share no node, after S/Kademlia (Baumgart and Mies, 2007).

An ordinary lookup ends when the nearest nodes that it was told of have answered. Nodes that name nobody but
each other so end each lookup that meets enough of them, though others are nearer. Here each peer is asked on
one path only. The first path begins as an ordinary lookup does; each other one begins at one contact, drawn
by chance from the whole table, and at the next one while nobody has answered. What each path found is told
apart: a path that hostile nodes have taken over says nothing of what the others found. Nor does it keep a
peer from them by naming it at a wrong address: a peer belongs to the path on which it has answered, and
before that only the address that was asked does. Only who has answered is found: those who are merely named
may have been invented. Nor does a path hold up the others for long: when half of them have ended, each other
one has as long again, and gives what it has found by then.

It costs as many lookups as there are paths. So it is for keys that somebody seems to crowd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.dht.lookup import NodeLookup, Surroundings
from overlay.dht.upstream import RoutedPeer, Target

STARTS = 4
"""Contacts at which a path begins, one after the other until one of them answers."""

LEAST_PATIENCE = 2.0
"""Seconds that a path has at least when half of all have ended: those may be hostile, and end at once."""

KNOWN = 256
"""Contacts of this node, the nearest to the target, among which the starts are drawn."""


class DisjointLookup:
    """Several lookups of one target; `done` is called once with what each path found, unless cancelled."""

    def __init__(
        self,
        parts: Surroundings,
        target: Target,
        count: int,
        done: Callable[[list[list[Contact]]], None],
    ) -> None:
        """`count`: nodes that each path looks for."""
        self._context = parts.context
        self._began = parts.context.now()
        self._patience: Timer | None = None
        self._done = done
        self._found: dict[int, list[Contact]] = {}
        claims = _Claims({}, {})
        known = parts.contacts.closest(target, KNOWN)
        self._paths: list[_Path] = []
        for number in range(parts.config.disjoint_paths):
            starts: Sequence[RoutedPeer] = ()
            if number:
                starts = parts.context.random.sample(known, min(STARTS, len(known)))
            path = _Path(parts, target, count, count, partial(self._ended, number))
            path.share(claims, number, starts)
            self._paths.append(path)

    def start(self) -> None:
        for path in self._paths:
            path.start()

    def cancel(self) -> None:
        self._be_patient_no_more()
        for path in self._paths:
            path.cancel()

    def _ended(self, number: int, found: list[Contact]) -> None:
        self._found[number] = found
        if len(self._found) == len(self._paths):
            self._be_patient_no_more()
            self._done([self._found[each] for each in range(len(self._paths))])
        elif self._patience is None and 2 * len(self._found) >= len(self._paths):
            as_long = max(self._context.now() - self._began, LEAST_PATIENCE)
            self._patience = self._context.call_later(as_long, self._end)

    def _end(self) -> None:
        for path in self._paths:
            path.end()

    def _be_patient_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()


class _Claims(NamedTuple):
    """Which path has whom, for all paths."""

    asked_on: dict[Contact, int]
    answered_on: dict[PeerId, int]


class _Path(NodeLookup):
    """One of the paths: asks nobody whom another one has asked."""

    def share(self, claims: _Claims, number: int, starts: Sequence[RoutedPeer]) -> None:
        """No `starts`: begin at the nearest."""
        self._claims = claims
        self._number = number
        self._starts = list(starts)
        self._begins_near = not starts

    def end(self) -> None:
        """Give what was found so far."""
        if not self.is_over and self._parts.at_once.give_up(self._begin):
            self.is_over = True
            self._done([])
        else:
            self._stop()

    def _first_contacts(self) -> list[RoutedPeer]:
        return super()._first_contacts() if self._begins_near else []

    def _is_finished(self) -> bool:
        while super()._is_finished():
            if self._starts and not self.has_answers:
                self.shortlist.add([self._starts.pop()])
                continue
            return True
        return False

    def _may_ask(self, peer: RoutedPeer) -> bool:
        asked_on, answered_on = self._claims
        return (
            answered_on.get(peer.id, self._number) == self._number
            and asked_on.setdefault(peer.contact, self._number) == self._number
        )

    def _take_contacts(self, introducer: RoutedPeer, named: bytes) -> None:
        self._claims.answered_on.setdefault(introducer.id, self._number)
        super()._take_contacts(introducer, named)
