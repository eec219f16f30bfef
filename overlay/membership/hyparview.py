"""HyParView as a membership service (Leitao, Pereira and Rodrigues, 2007).

A member keeps two views. The *active view* is its topic table. It is symmetric: each of two neighbours has
the other in it. The *passive view* holds further members, who do not know of it; from there a new neighbour
comes when one is lost. A newcomer's join is forwarded along random walks, so that its neighbours are spread
over the community. *Shuffles*, exchanges of a few members at the end of a random walk, keep the passive views
fresh.

As published: joins, their walks, priorities of requests, shuffles, and that a lost neighbour is replaced from
the passive view. Two things are added, because CAMCAST and real networks need them:
 - The active view has floor(ln N + c) members instead of a fixed number, since gossip goes to as many. N
   comes from a census that messages between neighbours carry (see `overlay.membership.scamp.census`).
 - Members visit a contact of the directory now and then, and a neighbour that seemed to have crashed (see
   `overlay.membership.lost`), and become its neighbour. That joins the halves of a healed partition, whose
   members have forgotten each other. `balance=False` switches this off.

Needs of its context: messages may be lost, duplicated and reordered. Neighbours ask each other for a sign of
life in turn, one every `keep_seconds`. A neighbour that does not answer `patience` times in a row is taken
for crashed. Two members that disagree about being neighbours agree again within one turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.membership.config import HyParViewConfig
from overlay.membership.lost import Lost
from overlay.membership.member import Member, Reaction
from overlay.membership.scamp.census import Census
from overlay.wire import message

CONTACTS = 3
"""How many contacts are asked of the directory at a time."""

TRIES = 4
"""How often a newcomer asks one member that does not answer, since a question may be lost: who asked in vain
goes on alone, and what it publishes first reaches nobody."""

LONGEST_RETRY_SECONDS = 60.0
"""A process without a neighbour goes back to the directory at doubling intervals, up to this."""


@message(0xA0)
class HyParViewJoin:
    """I am new: be my neighbour, and spread the word."""

    topic: str


@message(0xA1)
class ForwardJoin:
    """One step of the walk that finds a newcomer another neighbour."""

    topic: str
    newcomer: Contact
    steps: int
    """Steps that are left."""


@message(0xA2)
class Neighbour:
    """Will you be my neighbour? You are in my active view if you say yes."""

    topic: str
    urgent: bool
    """I have no neighbour: make room if you have none."""
    census: bytes


@message(0xA3)
class NeighbourAnswer:
    """You are in my active view, or there was no room."""

    topic: str
    accepted: bool
    census: bytes


@message(0xA4)
class HyParViewDisconnect:
    """You are not in my active view any more."""

    topic: str
    leaving: bool
    """And I am leaving the community: forget me."""


@message(0xA5)
class Keep:
    """You are in my active view: am I in yours?"""

    topic: str
    census: bytes
    answer: bool
    """This is the answer: you are in my active view, too."""


@message(0xA6)
class Shuffle:
    """Some members that I know, on a walk; the member at which the walk ends sends `origin` some of its
    own."""

    topic: str
    origin: Contact
    steps: int
    members: tuple[Contact, ...]


@message(0xA7)
class ShuffleAnswer:
    """Some members, for those of yours that I took."""

    topic: str
    members: tuple[Contact, ...]


class HyParViewMembership(Member[HyParViewConfig]):
    """One process's membership of one community, by HyParView."""

    def _prepare(self) -> dict[type, Reaction]:
        context = self._context
        self._active: dict[PeerId, Contact] = {}
        """In the order of their turns to be asked for a sign of life."""
        self._passive: dict[PeerId, Contact] = {}
        self._table: tuple[Contact, ...] = ()
        self._census = Census(context.random, context.now(), self._config.keep_seconds)
        self._lost = Lost(context.random, self._config.keep_seconds)
        self._unanswered: dict[PeerId, int] = {}
        self._asked: dict[PeerId, tuple[Contact, float]] = {}
        """Who was asked to be a neighbour, and until when the answer is waited for."""
        self._offered: tuple[Contact, ...] = ()
        """What the last shuffle offered: the first to go when the passive view is full."""
        self._timer: Timer | None = None
        self._settling: Timer | None = None
        self._tries: dict[PeerId, int] = {}
        """How often members that the directory named were asked to take this newcomer in."""
        self._shuffle_at = 0.0
        self._visit_at = 0.0
        self._retry_seconds = self._config.answer_seconds
        self._search = 0
        """Counts searches in the directory: only the answer to the last one counts."""
        return {
            HyParViewJoin: self._on_join,
            ForwardJoin: self._on_forward_join,
            Neighbour: self._on_neighbour,
            NeighbourAnswer: self._on_answer,
            HyParViewDisconnect: self._on_disconnect,
            Keep: self._on_keep,
            Shuffle: self._on_shuffle,
            ShuffleAnswer: self._on_shuffle_answer,
        }

    @property
    def table(self) -> tuple[Contact, ...]:
        return self._table

    @property
    def passive(self) -> tuple[Contact, ...]:
        """The passive view: members that a lost neighbour is replaced from."""
        return tuple(self._passive.values())

    @property
    def size(self) -> float:
        return max(self._census.size(self._context.now()), len(self._active) + 1.0)

    def start(self) -> None:
        self._is_running = True
        now, random = self._context.now(), self._context.random
        self._shuffle_at = now + self._config.shuffle_seconds * random.uniform(0.5, 1.0)
        self._visit(HyParViewJoin(self._topic))
        self._next_beat(random.random())

    def stop(self) -> None:
        if not self._is_running:
            return
        self._is_running = False
        self._search += 1
        if self._has_joined:
            self._directory.withdraw(self._topic)
        for neighbour in self._table:
            self._context.send(neighbour, HyParViewDisconnect(self._topic, True))
        for timer in (self._timer, self._settling):
            if timer is not None:
                timer.cancel()
        self._active.clear()
        self._passive.clear()
        self._asked.clear()
        self._table = ()

    def reconfigure(self, c: float) -> None:
        self._config = replace(self._config, c=c)
        if self._is_running:
            self._fill()

    def suspect(self, peer: PeerId) -> None:
        self._passive.pop(peer, None)
        self._asked.pop(peer, None)
        self._unanswered.pop(peer, None)
        neighbour = self._active.get(peer)
        if neighbour is not None:
            self._lost.remember(neighbour, self._context.now())
            self._remove(peer)
            self._census.lost_member(len(self._active))
        self._fill()

    def _react(self, reaction: Reaction, sender: Contact, message: object) -> None:
        super()._react(reaction, sender, message)
        if self._is_running:
            self._lost.heard(sender.id)

    # What a member does by itself.

    @property
    def _wanted(self) -> int:
        return self._config.neighbours(self.size)

    def _next_beat(self, delay: float) -> None:
        """`delay`: in the usual times between two beats; a newcomer's are shorter."""
        config = self._config
        seconds = config.keep_seconds if self._has_joined else config.answer_seconds / 2
        self._timer = self._context.call_later(delay * seconds, self._beat)

    def _beat(self) -> None:
        now, config = self._context.now(), self._config
        self._keep_neighbours()
        for peer, (_, until) in list(self._asked.items()):
            if now >= until:
                del self._asked[peer]
                self._passive.pop(peer, None)
        if len(self._active) > self._wanted + 2:
            self._drop_one()
        self._fill()
        if now >= self._shuffle_at:
            self._shuffle_at = now + config.shuffle_seconds * self._context.random.uniform(0.9, 1.1)
            self._begin_shuffle()
        if now >= self._visit_at and (self._balance or not self._active):
            self._visit(Neighbour(self._topic, True, self._census.packed(now)))
        if self._balance:
            for lost in self._lost.visits(now, self.size):
                self._context.send(lost, Neighbour(self._topic, True, self._census.packed(now)))
        self._next_beat(self._context.random.uniform(0.9, 1.1))

    def _keep_neighbours(self) -> None:
        """Ask the next neighbour in turn, and again those who owe an answer."""
        for peer, times in list(self._unanswered.items()):
            if peer not in self._active:
                del self._unanswered[peer]
            elif times >= self._config.patience:
                self.suspect(peer)
            else:
                self._ask_to_keep(peer, times + 1)
        if self._active:
            peer = next(iter(self._active))
            self._active[peer] = self._active.pop(peer)
            if peer not in self._unanswered:
                self._ask_to_keep(peer, 1)

    def _ask_to_keep(self, peer: PeerId, times: int) -> None:
        self._unanswered[peer] = times
        census = self._census.packed(self._context.now())
        self._context.send(self._active[peer], Keep(self._topic, census, False))

    def _fill(self) -> None:
        """Ask members of the passive view to be neighbours, as many as are missing."""
        if not self._is_running or not self._has_joined:
            return
        missing = self._wanted - len(self._active) - len(self._asked)
        candidates = [c for c in self._passive.values() if c.id not in self._asked]
        if missing > 0 and candidates:
            some = self._context.random.sample(candidates, min(missing, len(candidates)))
            for candidate in some:
                self._ask(candidate, urgent=not self._active)
        elif not self._active and not self._asked:
            self._visit_at = min(self._visit_at, self._context.now() + self._retry_seconds)

    def _ask(self, candidate: Contact, urgent: bool) -> None:
        now = self._context.now()
        self._asked[candidate.id] = (candidate, now + self._config.answer_seconds)
        self._context.send(candidate, Neighbour(self._topic, urgent, self._census.packed(now)))

    def _visit(self, request: HyParViewJoin | Neighbour) -> None:
        """Find a member by the directory and send it the request, as a newcomer or to meet new members."""
        now, config = self._context.now(), self._config
        if self._active:
            wait = config.visit_seconds(self.size) * self._context.random.uniform(0.5, 1.0)
            self._retry_seconds = config.answer_seconds
        elif not self._has_joined:
            wait = config.answer_seconds / 2  # the next one may be there
        else:
            wait = self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)
        self._visit_at = now + wait
        self._search += 1
        search = self._search
        self._directory.contacts(
            self._topic, CONTACTS, lambda contacts: self._found(search, request, contacts)
        )

    def _found(
        self, search: int, request: HyParViewJoin | Neighbour, contacts: Iterable[Contact]
    ) -> None:
        if search != self._search or not self._is_running:
            return
        me = self._context.contact.id
        others = [c for c in contacts if c.id != me and c.id not in self._active]
        if not self._has_joined:
            # The directory may name members that have crashed: after asking all of them, go on alone.
            others = [c for c in others if self._tries.get(c.id, 0) < TRIES]
        if others:
            chosen = self._context.random.choice(others)
            if not self._has_joined:
                self._tries[chosen.id] = self._tries.get(chosen.id, 0) + 1
            if isinstance(request, Neighbour):
                now = self._context.now()
                self._asked[chosen.id] = (chosen, now + self._config.answer_seconds)
            for other in others:
                self._learn(other)
            self._context.send(chosen, request)
        elif not self._active:
            self._alone.add()
            self._joined()

    def _joined(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._tries.clear()
        if not self._has_joined:
            self._has_joined = True
            # Ready is who can be found: the next one to come may be a publisher whose first event is for it.
            self._directory.announce(self._topic, self._listener.joined)
            self._fill()

    # The active view.

    def _add(self, member: Contact) -> None:
        """Take a member into the active view, in place of a random one when there is no room."""
        if member.id in self._active or member.id == self._context.contact.id:
            return
        if len(self._active) >= self._wanted + 1:
            self._drop_one()
        self._passive.pop(member.id, None)
        self._asked.pop(member.id, None)
        self._active[member.id] = member
        self._table = tuple(self._active.values())
        self._listener.member_added(member)
        if not self._has_joined:
            if len(self._active) >= min(self._wanted, self.size - 1) and self.size > 2:
                self._joined()
            elif self._settling is None:
                self._settling = self._context.call_later(self._config.settle_seconds, self._joined)

    def _drop_one(self) -> None:
        dropped = self._context.random.choice(self._table)
        self._remove(dropped.id)
        self._learn(dropped)
        self._context.send(dropped, HyParViewDisconnect(self._topic, False))

    def _remove(self, peer: PeerId) -> bool:
        member = self._active.pop(peer, None)
        if member is None:
            return False
        self._unanswered.pop(peer, None)
        self._table = tuple(self._active.values())
        self._listener.member_removed(member)
        return True

    def _on_join(self, sender: Contact, message: HyParViewJoin) -> None:
        is_known = sender.id in self._active
        self._add(sender)
        census = self._census.packed(self._context.now())
        self._context.send(sender, NeighbourAnswer(self._topic, True, census))
        for neighbour in self._table:
            if neighbour.id != sender.id and not is_known:  # or its walks are on their way
                forward = ForwardJoin(self._topic, sender, self._config.active_walk)
                self._context.send(neighbour, forward)

    def _on_forward_join(self, sender: Contact, message: ForwardJoin) -> None:
        newcomer, steps = message.newcomer, min(message.steps, self._config.active_walk)
        if newcomer.id == self._context.contact.id:
            return
        others = [c for c in self._table if c.id not in (sender.id, newcomer.id)]
        if steps <= 0 or not others or len(self._active) <= 1:
            if newcomer.id not in self._active:
                self._ask(newcomer, urgent=True)
            return
        if steps == self._config.passive_walk:
            self._learn(newcomer)
        next_one = self._context.random.choice(others)
        self._context.send(next_one, ForwardJoin(self._topic, newcomer, steps - 1))

    def _on_neighbour(self, sender: Contact, message: Neighbour) -> None:
        self._take_census(message.census)
        has_room = len(self._active) <= self._wanted
        accepted = sender.id in self._active or message.urgent or has_room
        if accepted:
            self._add(sender)
        else:
            self._learn(sender)
        census = self._census.packed(self._context.now())
        self._context.send(sender, NeighbourAnswer(self._topic, accepted, census))

    def _on_answer(self, sender: Contact, message: NeighbourAnswer) -> None:
        self._take_census(message.census)
        asked = self._asked.pop(sender.id, None)
        if message.accepted:
            self._add(sender)
        elif asked is not None:
            self._learn(sender)

    def _on_disconnect(self, sender: Contact, message: HyParViewDisconnect) -> None:
        was_neighbour = self._remove(sender.id)
        if message.leaving:
            self._passive.pop(sender.id, None)
            if was_neighbour:
                self._census.lost_member(len(self._active))
        elif was_neighbour:
            self._learn(sender)
        if was_neighbour:
            self._fill()

    def _on_keep(self, sender: Contact, message: Keep) -> None:
        self._take_census(message.census)
        if message.answer:
            self._unanswered.pop(sender.id, None)
            return
        if sender.id not in self._active:
            # A message was lost, and the two disagree: be neighbours if there is room, and else say no.
            if len(self._active) > self._wanted:
                self._context.send(sender, HyParViewDisconnect(self._topic, False))
                return
            self._add(sender)
        census = self._census.packed(self._context.now())
        self._context.send(sender, Keep(self._topic, census, True))

    def _take_census(self, packed: bytes) -> None:
        if not self._census.merge(packed, self._context.now()):
            self._dropped.add("malformed_census")

    # The passive view.

    def _learn(self, member: Contact) -> None:
        """Take a member into the passive view, in place of one when there is no room."""
        me = self._context.contact.id
        if member.id == me or member.id in self._active or member.id in self._passive:
            return
        if len(self._passive) >= self._config.passive_factor * self._wanted:
            offered = [c.id for c in self._offered if c.id in self._passive]
            random = self._context.random
            gone = random.choice(offered) if offered else random.choice(list(self._passive))
            del self._passive[gone]
        self._passive[member.id] = member

    def _some(self, contacts: Iterable[Contact], count: int, but: PeerId) -> list[Contact]:
        candidates = [contact for contact in contacts if contact.id != but]
        return self._context.random.sample(candidates, min(count, len(candidates)))

    def _begin_shuffle(self) -> None:
        if not self._table:
            return
        config, to = self._config, self._context.random.choice(self._table)
        active = self._some(self._table, config.shuffled_active, to.id)
        passive = self._some(self._passive.values(), config.shuffled_passive, to.id)
        self._offered = tuple(passive)
        members = (*active, *passive)
        self._context.send(
            to, Shuffle(self._topic, self._context.contact, config.active_walk, members)
        )

    def _on_shuffle(self, sender: Contact, message: Shuffle) -> None:
        if message.origin.id == self._context.contact.id:
            return
        config = self._config
        if len(message.members) > config.shuffled_active + config.shuffled_passive:
            self._dropped.add("shuffle_too_large")
            return
        others = [c for c in self._table if c.id not in (sender.id, message.origin.id)]
        steps = min(message.steps, config.active_walk) - 1
        if steps > 0 and len(others) > 0:
            next_one = self._context.random.choice(others)
            forward = Shuffle(self._topic, message.origin, steps, message.members)
            self._context.send(next_one, forward)
            return
        count = len(message.members)
        answer = self._some(self._passive.values(), count, message.origin.id)
        self._context.send(message.origin, ShuffleAnswer(self._topic, tuple(answer)))
        self._offered = tuple(answer)
        for member in (message.origin, *message.members):
            self._learn(member)

    def _on_shuffle_answer(self, sender: Contact, message: ShuffleAnswer) -> None:
        config = self._config
        if len(message.members) > config.shuffled_active + config.shuffled_passive:
            self._dropped.add("shuffle_too_large")
            return
        for member in message.members:
            self._learn(member)
        self._fill()
