"""Keeping a community in touch with its super-communities (CAMCAST, figure 6 and section 3.4).

Every `link_interval`, with probability p_sel, a process asks the processes in its super-topic tables whether
they are there (CHECK). With tau or fewer of them alive it asks those for more (NEWPROCESS), and it passes
its tables on to members of its community, who take what they lack or have not confirmed for long (MERGE).
So about g processes do this for all of a community. Nothing enters a table before it has confirmed that
it is in the super-topic. A first link to a super-community is passed on by everyone who learns of it.

A *super-topic table* (section 3.2) holds up to z processes of one super-topic. There is one for each parent;
where a parent's community is empty, it is *bridged*: tables for its own parents stand in, and go when it has
a member again. The *topic table* is the membership service's. Nothing is kept about subtopics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.failure.detector import SELDOM
from pubsub.camcast.leases import Leases
from pubsub.camcast.messages import NewProcesses, NewProcessesAnswer, ShareSuper
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.camcast.community import Community, Services

STALE_INTERVALS = 12
"""An entry that was not confirmed for this many link intervals gives way to a fresh one. One that has crashed
goes as soon as that is noticed; besides, every look asks z processes and takes them anew."""


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

    @property
    def contacts(self) -> list[Contact]:
        """Every entry of every table."""
        return [contact for table in self._tables.values() for contact in table.contacts]

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


class Links:
    """The links of one community on one process."""

    def __init__(
        self,
        community: Community,
        services: Services,
        leases: Leases,
        tables: SuperTables,
        search: Callable[[], None],
    ) -> None:
        """`search` starts to look for super-processes, unless it is looking already."""
        self._community = community
        self._context = services.control
        self._datagrams = services.questions
        """Tables are passed on by these: several members get each, again and again, so that none of these
        messages needs an acknowledgement."""
        self._leases = leases
        self.tables = tables
        self._search = search
        self._draws = services.draws_tables
        """Every member draws its tables from the directory, and nobody passes his own on."""
        self._seldom = SELDOM if services.is_light else 1
        self._stopped = False

    def start(self) -> None:
        delay = self._context.random.uniform(0.0, self._community.parameters.link_interval)
        self._timer = self._context.call_later(delay, self._keep_updated)

    def stop(self) -> None:
        self._stopped = True
        self._timer.cancel()

    def introduce(
        self, topic: str, contacts: tuple[Contact, ...], done: Callable[[], None]
    ) -> None:
        """Take candidates that a search has found. The first to confirm makes the link, and is asked for
        others: searches often find the same few contacts for everyone, which would have the load alone.

        `done` is called when all of them have answered or timed out."""
        self.offer(topic, contacts, done, introduction=True)

    def draw(
        self, topic: str, sample: tuple[Contact, ...], done: Callable[[], None] | None = None
    ) -> None:
        """A uniform sample of a super-topic: those who confirm make its table, in the order of the sample.

        Where nobody confirms the table stays as it is. `done` is called when all have answered or timed out.
        """
        own = self._context.contact.id
        asked = [contact for contact in sample if contact.id != own]
        alive: dict[PeerId, bool] = {}

        def answered(contact: Contact, is_alive: bool) -> None:
            alive[contact.id] = is_alive
            if len(alive) < len(asked):
                return
            if not self._stopped:
                self._drawn(topic, [member for member in asked if alive[member.id]])
            if done is not None:
                done()

        for contact in asked:
            self._leases.confirm(contact, topic, lambda alive, c=contact: answered(c, alive))  # type: ignore[misc]
        if not asked and done is not None:
            done()

    def _drawn(self, topic: str, confirmed: list[Contact]) -> None:
        table = self.tables.table(topic)
        if table is None or not confirmed:  # a nearer super-community was found meanwhile
            return
        first = not table
        table.replace(confirmed[: self._community.parameters.z], self._context.now())
        if first:
            self.tables.prune()
            self._share(topic)

    def offer(
        self,
        topic: str,
        contacts: tuple[Contact, ...],
        done: Callable[[], None] | None = None,
        introduction: bool = False,
    ) -> None:
        """Candidates for a super-topic table: as many as fit are asked, and enter when they confirm."""
        table = self.tables.table(topic)
        wanted: list[Contact] = []
        if table is not None:
            own = self._context.contact.id
            known = {c.id: c for c in contacts if c.id != own and c.id not in table}
            room = table.room(self._community.parameters.z, self._stale_before())
            wanted = list(known.values())[:room]
        open_questions = len(wanted)

        def answered(contact: Contact, alive: bool) -> None:
            nonlocal open_questions
            open_questions -= 1
            if alive and not self._stopped and not (introduction and self.tables.table(topic)):
                self._enter(topic, contact)
            if not open_questions and done is not None:
                done()

        for contact in wanted:
            self._leases.confirm(contact, topic, lambda alive, c=contact: answered(c, alive))  # type: ignore[misc]
        if not wanted and done is not None:
            done()

    def lost(self, peer: PeerId, topic: str | None = None) -> None:
        """A process has left `topic`, or is believed to have crashed."""
        if self.tables.drop(peer, topic) and not self._stopped and self.tables.missing():
            self._search()

    def receive_share(self, sender: Contact, share: ShareSuper) -> None:
        self.offer(share.super_topic, share.contacts[: self._community.parameters.z])

    def receive_new_processes(self, sender: Contact, answer: NewProcessesAnswer) -> None:
        self.offer(answer.topic, answer.contacts[: self._community.parameters.z])

    def _stale_before(self) -> float:
        return self._context.now() - STALE_INTERVALS * self._community.parameters.link_interval

    def _enter(self, topic: str, contact: Contact) -> None:
        table = self.tables.table(topic)
        if table is None:  # a nearer super-community was found meanwhile
            return
        first = not table
        z = self._community.parameters.z
        if table.merge(contact, self._context.now(), z, self._stale_before()) and first:
            self.tables.prune()
            self._share(topic)
            self._context.send(contact, NewProcesses(topic, z))

    def _share(self, topic: str) -> None:
        """Pass a super-topic table on to as many members of the community as an event would go to."""
        if self._draws:
            return
        table = self.tables.table(topic)
        members = self._community.table
        fanout = self._community.parameters.fanout(self._community.size)
        if len(members) > fanout:
            members = tuple(self._context.random.sample(members, fanout))
        if table:
            share = ShareSuper(self._community.name, topic, table.contacts)
            for member in members:
                self._datagrams.send(member, share)

    def _keep_updated(self) -> None:
        """KEEP_TABLE_UPDATED."""
        interval = self._community.parameters.link_interval
        delay = interval * self._context.random.uniform(0.9, 1.1)
        self._timer = self._context.call_later(delay, self._keep_updated)
        p_sel = self._community.parameters.p_sel(self._community.size)
        draw = self._context.random.random()
        if draw * self._seldom < p_sel:
            for table in self.tables.linked():
                self._check(table.topic.name)
        if draw < p_sel and self.tables.missing():
            self._search()

    def _check(self, topic: str) -> None:
        """CHECK every process of a table, then ask the live ones for more when there are too few."""
        table = self.tables.table(topic)
        contacts = table.contacts if table else ()
        open_questions = len(contacts)

        def answered(contact: Contact, alive: bool) -> None:
            nonlocal open_questions
            open_questions -= 1
            if alive and not self._stopped:
                self._enter(topic, contact)
            if not open_questions and not self._stopped:
                self._checked(topic)

        for contact in contacts:
            self._leases.confirm(contact, topic, lambda alive, c=contact: answered(c, alive))  # type: ignore[misc]

    def _checked(self, topic: str) -> None:
        table = self.tables.table(topic)
        if not table:  # nobody is left, and the search is on; or the table is needed no more
            return
        parameters = self._community.parameters
        live = table.contacts
        self._share(topic)
        if len(live) <= parameters.tau:
            for contact in live:
                self._context.send(contact, NewProcesses(topic, parameters.z))
        elif self._context.random.random() < parameters.rotation:
            if len(live) == parameters.z:
                table.rotate(self._context.random)
            self._context.send(self._context.random.choice(live), NewProcesses(topic, parameters.z))
