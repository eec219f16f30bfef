"""The super-topic tables of one community on one process (CAMCAST, section 3.2).

A *super-topic table* holds up to z processes of one super-topic. There is one for each parent; where a
parent's community is empty, it is *bridged*: tables for its own parents stand in, and go when it has a
member again.
The *topic table* is the membership service's. Nothing is kept about subtopics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from pubsub.topic import Topic

Changed = Callable[[str, Contact, bool], None]
"""Called with a super-topic and a process that entered its table (True) or left it (False)."""


def _ignore(topic: str, contact: Contact, entered: bool) -> None: ...


@dataclass(slots=True)
class _Entry:
    contact: Contact
    confirmed: float


class SuperTable:
    """Up to z processes that have said that they are in `topic`, and when each last said so."""

    def __init__(self, topic: Topic, changed: Changed = _ignore) -> None:
        self.topic = topic
        self._changed = changed
        self._entries: dict[PeerId, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._entries

    @property
    def contacts(self) -> tuple[Contact, ...]:
        return tuple(entry.contact for entry in self._entries.values())

    def room(self, size: int, stale_before: float) -> int:
        """How many entries MERGE would take: free places and those not confirmed for too long."""
        stale = sum(entry.confirmed < stale_before for entry in self._entries.values())
        return max(0, size - len(self._entries)) + stale

    def merge(self, fresh: Contact, now: float, size: int, stale_before: float) -> bool:
        """MERGE for one process that has just confirmed: it fills a free place, or a stale one.

        Returns whether it is in the table now."""
        is_new = fresh.id not in self._entries
        if is_new and len(self._entries) >= size:
            oldest = min(self._entries.values(), key=lambda entry: entry.confirmed)
            if oldest.confirmed >= stale_before:
                return False
            self.drop(oldest.contact.id)
        self._entries[fresh.id] = _Entry(fresh, now)
        if is_new:
            self._changed(self.topic.name, fresh, True)
        return True

    def replace(self, contacts: Sequence[Contact], now: float) -> None:
        """Hold these processes, who have just confirmed, and nobody else."""
        for peer in [peer for peer in self._entries if all(peer != c.id for c in contacts)]:
            self.drop(peer)
        for contact in contacts:
            is_new = contact.id not in self._entries
            self._entries[contact.id] = _Entry(contact, now)
            if is_new:
                self._changed(self.topic.name, contact, True)

    def rotate(self, random: Randomness) -> None:
        """Drop one process at random, to make room for another."""
        if self._entries:
            self.drop(random.choice(tuple(self._entries)))

    def drop(self, peer: PeerId) -> bool:
        """Take a process out; False when it is not in."""
        entry = self._entries.pop(peer, None)
        if entry is not None:
            self._changed(self.topic.name, entry.contact, False)
        return entry is not None

    def clear(self) -> None:
        for peer in list(self._entries):
            self.drop(peer)


class SuperTables:
    """Every super-topic table of one community, and which super-topics are being looked for."""

    def __init__(
        self, topic: Topic, is_own: Callable[[str], bool], changed: Changed = _ignore
    ) -> None:
        """`is_own` says whether this process is itself in a topic's community: it is then its own link."""
        self._parents = topic.parents
        self._is_own = is_own
        self._changed = changed
        self._tables: dict[str, SuperTable] = {}
        self._bridged: dict[str, None] = {}

    def learn(self, topic: Topic) -> None:
        """The topic has these super-topics, and not those that it had."""
        self._parents = topic.parents
        self.prune()

    def __len__(self) -> int:
        """How many entries are held, in all tables."""
        return sum(len(table) for table in self._tables.values())

    def linked(self) -> list[SuperTable]:
        """The tables to send to: for each parent its own, or those that bridge it."""
        if not any(self._tables.values()):
            return []
        return [self._tables[t.name] for t in self._walk() if self._tables.get(t.name)]

    def missing(self) -> list[Topic]:
        """The super-topics in which somebody is looked for, the nearest first."""
        return [t for t in self._walk() if not self._tables.get(t.name)]

    def table(self, topic: str) -> SuperTable | None:
        """The table for a super-topic that is linked or looked for; None for any other topic."""
        wanted = next((t for t in self._walk() if t.name == topic), None)
        if wanted is None:
            return None
        return self._tables.setdefault(topic, SuperTable(wanted, self._changed))

    def widen(self) -> bool:
        """Look beyond the super-topics in which nobody was found; False when that was tried already."""
        fresh = [t for t in self.missing() if t.name not in self._bridged and t.parents]
        self._bridged.update((t.name, None) for t in fresh)
        return bool(fresh)

    def covered(self) -> bool:
        """Whether everything that is missing is at least bridged."""
        return all(topic.name in self._bridged for topic in self.missing())

    def prune(self) -> None:
        """Forget the tables and bridges that a nearer super-community has made unnecessary."""
        for table in self.linked():
            self._bridged.pop(table.topic.name, None)
        needed = {t.name for t in self._walk()}
        for name, table in self._tables.items():
            if name not in needed:
                table.clear()
        self._tables = {name: t for name, t in self._tables.items() if t}
        self._bridged = {name: None for name in self._bridged if name in needed}

    def drop(self, peer: PeerId, topic: str | None = None) -> bool:
        """Take a process out of the table of `topic`, or of all tables."""
        tables = [t for name, t in self._tables.items() if topic in (None, name)]
        return sum(table.drop(peer) for table in tables) > 0

    def _walk(self) -> list[Topic]:
        """The parents, and behind each one that is empty and bridged its own parents, nearest first."""
        found: dict[str, Topic] = {}
        edge = list(self._parents)
        while edge:
            topic = edge.pop(0)
            if topic.name in found or self._is_own(topic.name):
                continue
            found[topic.name] = topic
            if topic.name in self._bridged and not self._tables.get(topic.name):
                edge.extend(topic.parents)
        return list(found.values())
