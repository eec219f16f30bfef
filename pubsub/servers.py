"""Who serves a name: found for all questions of a node together, and remembered for the next ones.

A search in the directory takes a round trip or two as a rule, and many seconds while nodes are gone that it
has to pass. So there is one search for a name at a time, whatever the number of questions, and a question for
which the search takes too long goes to those who were found before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.membership.interface import TopicDirectory

MOST_SERVERS = 16
"""Servers of a name that are looked for at a time."""

SEARCH_SECONDS = 0.5
"""Between two searches while no server is known; and how long a question waits at most for a search
if servers are remembered."""

MOST_NAMES = 1_000
"""Names whose servers are remembered."""

MOST_SILENT = 1_000
"""Servers that are remembered as given up."""

SILENT_SECONDS = 30.0
"""How long a server that was given up is asked last."""

Found = Callable[[tuple[Contact, ...]], None]


class Servers:
    """The servers of all names that one node asks. A core."""

    def __init__(self, context: Context, directory: TopicDirectory) -> None:
        self._context = context
        self._directory = directory
        self._waiting: dict[str, list[Found]] = {}
        """Names that are searched, and who waits for the end of the search."""
        self._known: OrderedDict[str, tuple[Contact, ...]] = OrderedDict()
        self._silent: OrderedDict[PeerId, float] = OrderedDict()
        """Until when a server is asked last."""

    def find(self, name: str, found: Found, patience: float) -> None:
        """Call `found` once: with what the directory says, or with those found before when that takes
        longer than `patience`."""
        if name in self._waiting:
            self._waiting[name].append(found)
        else:
            self._waiting[name] = [found]
            self._directory.contacts(listed(name), MOST_SERVERS, partial(self._end, name))
        if found in self._waiting.get(name, ()):
            self._context.call_later(patience, partial(self._give_known, name, found))

    def forget(self, name: str, found: Found) -> None:
        """Who asked wants nothing any more."""
        if found in self._waiting.get(name, ()):
            self._waiting[name].remove(found)

    def _end(self, name: str, contacts: tuple[Contact, ...]) -> None:
        waiting = self._waiting.pop(name, [])
        self.remember(name, contacts)
        for found in waiting:
            found(contacts)

    def remember(self, name: str, contacts: tuple[Contact, ...]) -> None:
        if contacts:
            self._known[name] = contacts[:MOST_SERVERS]
            self._known.move_to_end(name)
            if len(self._known) > MOST_NAMES:
                self._known.popitem(last=False)

    def known(self, name: str) -> tuple[Contact, ...]:
        """Those who were found last."""
        return self._known.get(name, ())

    def _give_known(self, name: str, found: Found) -> None:
        known = self.known(name)
        if known and found in self._waiting.get(name, ()):
            self._waiting[name].remove(found)
            found(known)

    def in_turn(self, servers: list[Contact]) -> list[Contact]:
        """In a random order, to be asked from the end; those that were silent lately are asked last."""
        now = self._context.now()
        self._context.random.shuffle(servers)
        return sorted(servers, key=lambda one: self._silent.get(one.id, now) <= now)

    def was_silent(self, server: PeerId) -> None:
        self._silent[server] = self._context.now() + SILENT_SECONDS
        self._silent.move_to_end(server)
        if len(self._silent) > MOST_SILENT:
            self._silent.popitem(last=False)

    def has_answered(self, server: PeerId) -> None:
        self._silent.pop(server, None)


def listed(name: str) -> str:
    """The name in the directory of those who serve; no topic has such a name."""
    return f"serve:{name}"
