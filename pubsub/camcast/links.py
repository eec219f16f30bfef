"""Keeping a community in touch with its super-communities (CAMCAST, figure 6 and section 3.4).

Every `link_interval`, with probability p_sel, a process asks the processes in its super-topic tables whether
they are there (CHECK). With tau or fewer of them alive it asks those for more (NEWPROCESS), and it passes
its tables on to members of its community, who take what they lack or have not confirmed for long (MERGE).
So about g processes do this for all of a community. Nothing enters a table before it has confirmed that
it is in the super-topic. A first link to a super-community is passed on by everyone who learns of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context
from pubsub.camcast.leases import Leases
from pubsub.camcast.messages import NewProcesses, NewProcessesAnswer, ShareSuper
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.tables import SuperTables

STALE_INTERVALS = 4
"""An entry that was not confirmed for this many link intervals gives way to a fresh one."""


class LinkedCommunity(Protocol):
    """What the keeping of links sees of its community."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def size(self) -> float: ...

    @property
    def table(self) -> tuple[Contact, ...]: ...


class Links:
    """The links of one community on one process."""

    def __init__(
        self,
        community: LinkedCommunity,
        context: Context,
        leases: Leases,
        tables: SuperTables,
        search: Callable[[], None],
    ) -> None:
        """`search` starts to look for super-processes, unless it is looking already."""
        self._community = community
        self._context = context
        self._leases = leases
        self.tables = tables
        self._search = search
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
        """Candidates whom a search has found. The first to confirm makes the link, and is asked for others:

        contacts are often the same few for everyone, and the load would be theirs alone.
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
        table = self.tables.table(topic)
        members = self._community.table
        fanout = self._community.parameters.fanout(self._community.size)
        if len(members) > fanout:
            members = tuple(self._context.random.sample(members, fanout))
        if table:
            share = ShareSuper(self._community.name, topic, table.contacts)
            for member in members:
                self._context.send(member, share)

    def _keep_updated(self) -> None:
        """KEEP_TABLE_UPDATED."""
        interval = self._community.parameters.link_interval
        delay = interval * self._context.random.uniform(0.9, 1.1)
        self._timer = self._context.call_later(delay, self._keep_updated)
        p_sel = self._community.parameters.p_sel(self._community.size)
        if self._context.random.random() >= p_sel:
            return
        for table in self.tables.linked():
            self._check(table.topic.name)
        if self.tables.missing():
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
