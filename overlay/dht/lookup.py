"""Lookups: the nodes closest to a place, and the questions that they are asked on the way.

The `Shortlist` says whom to ask, replies come checked from the exchange, and a lookup is over within its
budget of requests and its deadline, whatever happens. Upstream's crawlers ask in rounds, and one silent
peer holds up each of them (crawling.py:37-63); every round is a deeper recursion, as many as peers like to
cause (106, 150); and what a peer replies is used unseen (115, 183).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.dht.config import DhtConfig
from overlay.dht.exchange import Call, Exchange, ReplyOutcome
from overlay.dht.messages import FindNode, FoundNodes, contact_of, split_entries
from overlay.dht.routing import Contacts
from overlay.dht.shortlist import Shortlist
from overlay.dht.upstream import RoutedPeer, Target, peer_of
from overlay.steps import AtOnce
from overlay.wire import WireError

T = TypeVar("T")

MOST_NAMED = 20
"""Contacts that a peer is asked for, or k if that is more, where everybody who is named is wanted."""


@dataclass(frozen=True)
class LookupReport:
    """What a lookup cost."""

    hops: int
    """Peers that had to be asked one after the other until the closest node was known."""

    requests: int
    """Peers that were asked in all."""


@dataclass(frozen=True)
class Surroundings:
    """The parts of its node that a lookup works with."""

    context: Context
    config: DhtConfig
    contacts: Contacts
    exchange: Exchange
    at_once: AtOnce
    ended: Callable[[LookupReport], None]
    """Told what each lookup cost that came to its end."""


class Lookup(ABC, Generic[T]):
    """What all kinds of lookup share; `done` is called once with the result, unless it is cancelled."""

    def __init__(
        self,
        parts: Surroundings,
        target: Target,
        count: int,
        done: Callable[[T], None],
        reach: int = 0,
    ) -> None:
        """`reach`: contacts that every peer is asked for at least."""
        config = parts.config
        self._parts = parts
        self._target = target
        self._done = done
        self._calls: dict[PeerId, Call] = {}
        self._timer: Timer | None = None
        self.is_over = False
        self.has_answers = False
        """Whether anybody who was asked has answered."""
        self.shortlist = Shortlist(
            target.long_id,
            count,
            min(config.alpha, count),
            config.lookup_budget * max(count, config.k),
            reach,
        )

    def start(self) -> None:
        """Begin as soon as there is room among the lookups in flight."""
        self._parts.at_once.enter(self._begin)

    def cancel(self) -> None:
        """Stop; nothing of the lookup is left, and `done` is not called."""
        if not self.is_over:
            self.is_over = True
            if not self._parts.at_once.give_up(self._begin):
                self._leave()

    @abstractmethod
    def _question(self, count: int) -> tuple[object, tuple[type, ...]]:
        """What a peer is asked, with the number of contacts that it should name, and what it may reply."""

    @abstractmethod
    def _result(self) -> T: ...

    def _read(self, peer: RoutedPeer, reply: object) -> bytes | None:
        """Take what the reply is good for; the list of contacts it names, or None if it is a refusal."""
        return reply.contacts if isinstance(reply, FoundNodes) else None

    def _is_finished(self) -> bool:
        return self.shortlist.is_finished

    def _begin(self) -> None:
        parts = self._parts
        self._timer = parts.context.call_later(parts.config.lookup_deadline, self._stop)
        if parts.config.serve:
            self.shortlist.add_self(parts.contacts.own)
        self.shortlist.add(self._first_contacts())
        self._proceed()

    def _first_contacts(self) -> list[RoutedPeer]:
        """Whom the lookup begins with."""
        return self._parts.contacts.closest(self._target)

    def _may_ask(self, peer: RoutedPeer) -> bool:
        """Whether a candidate may be asked; if not, it is left out."""
        return True

    def _proceed(self) -> None:
        while not self._is_finished():
            left_out = []
            for peer, count in self.shortlist.next_to_ask():
                if not self._may_ask(peer):
                    left_out.append(peer)
                    continue
                question, expects = self._question(count)
                self._calls[peer.id] = self._parts.exchange.call(
                    peer.contact, question, expects, self._ended, self._overdue
                )
            if not left_out:
                return
            for peer in left_out:
                self.shortlist.failed(peer)
        self._stop()

    def _stop(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._leave()
            self._parts.ended(LookupReport(self.shortlist.hops, self.shortlist.asked))
            self._done(self._result())

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for call in list(self._calls.values()):
            call.cancel()
        self._calls.clear()
        self._parts.at_once.leave()

    def _ended(self, call: Call) -> None:
        contact = call.contact
        if self.is_over or contact is None:
            return
        if call.outcome is ReplyOutcome.CLOSED:
            self.cancel()
            return
        del self._calls[contact.id]
        peer = peer_of(contact)
        named = self._read(peer, call.reply) if call.is_answered else None
        if named is None:
            self.shortlist.failed(peer)
        else:
            self._take_contacts(peer, named)
        self._proceed()

    def _overdue(self, call: Call) -> None:
        if call.contact is not None and not self.is_over:
            self.shortlist.overdue(peer_of(call.contact))
            self._proceed()

    def _take_contacts(self, introducer: RoutedPeer, named: bytes) -> None:
        """Take new candidates from the list of contacts that `introducer` replied with."""
        known = self._parts.contacts
        try:
            fresh = self.shortlist.unknown(split_entries(named), introducer)
            contacts = [contact_of(entry) for entry in fresh]
        except WireError:
            known.punish(introducer)
            self.shortlist.failed(introducer)
            return
        self.shortlist.answered(introducer)
        self.has_answers = True
        if not contacts:
            return
        peers = [peer_of(contact) for contact in contacts if contact.id != known.own.id]
        possible = [peer for peer in peers if peer.can_exist]
        sound = known.sound(possible)
        if len(sound) < len(possible):
            dead = [peer for peer in possible if peer not in sound]
            self.shortlist.rule_out(dead, introducer)
        self.shortlist.add(sound, introduced_by=introducer)


class NodeLookup(Lookup[list[Contact]]):
    """The `exact` closest live nodes, nearest first, this one among them where it serves and is close.

    After them, up to `wide` in all, others that were named by those who were asked, and were not asked.
    """

    def __init__(
        self,
        parts: Surroundings,
        target: Target,
        exact: int,
        wide: int,
        done: Callable[[list[Contact]], None],
    ) -> None:
        reach = min(wide, max(parts.config.k, MOST_NAMED)) if wide > exact else 0
        super().__init__(parts, target, exact, done, reach)
        self._exact = exact
        self._wide = wide

    def _question(self, count: int) -> tuple[object, tuple[type, ...]]:
        return FindNode(self._target.id, count), (FoundNodes,)

    def _result(self) -> list[Contact]:
        found = self.shortlist.result()
        if self._wide > self._exact:
            found = list(dict.fromkeys([*found, *self.shortlist.near(self._wide)]))[: self._wide]
        return [peer.contact for peer in found]
