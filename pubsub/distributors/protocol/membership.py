"""Who the distributors are, at one of them: how it finds a group, joins it, leaves it and keeps its view.

A distributor that comes up asks those it finds for their view, and is taken in by the coordinator; where
nobody has a view, the one with the smallest id founds a group. The failure detector's suspicions are wishes
that somebody be left out of the next view; the view itself changes by agreement alone (see `agreement`).
One that finds itself left out asks to be taken in again. Two groups that meet become one: the members of
the greater one, by `Group`'s order, join the other. Messages may be lost, repeated and reordered.

The distributors agree on their next view in two phases, led by a coordinator (section 4.1.2; `Agreement`).

The coordinator is the most senior member that is not suspected. It proposes the next view's members to
all members of this one (phase one); once a majority of them has accepted, the view is agreed on and told to
everybody in either view (phase two). A coordinator that takes over from a suspected one first asks a
majority what they have accepted, and proposes that if there is anything: so a view that its predecessor may
have told to some is the one that all install. A member that answers a ballot refuses lower ones from then on.

What holds whatever is lost, repeated, reordered, suspected or partitioned, and whichever members crash and
come back: no two different views of a group have the same number, and each member installs them in their
order. A distributor that comes back is another member (see `ViewMember`): it votes on nothing that its
earlier run may have voted on. That a new view comes needs a majority that stays in touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Context
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Prepare, Propose, ViewHello, Vote
from pubsub.distributors.protocol.view import NO_BALLOT, NO_VIEW, Ballot, Group, View, ViewMember

Members = tuple[ViewMember, ...]
BallotMessage = Prepare | Propose | Vote

MOST_MEMBERS = 256
"""Members of a view that is believed."""

MOST_AHEAD = 2**32
"""How far beyond those known a number may be that a peer tells. After the largest number that can travel
there is no next one: whoever told of it would leave a group without another view."""


@dataclass(slots=True)
class _Attempt:
    """A ballot that this member leads."""

    ballot: Ballot
    members: Members
    asking: bool
    """Whether it still asks what was accepted before."""
    votes: dict[PeerId, Vote] = field(default_factory=dict)


class Agreement:
    """Agrees on the view after `view`; a new one is made for each view."""

    def __init__(self, view: View, context: Context, decided: Callable[[Members], None]) -> None:
        """`decided` is called once, at the coordinator that has counted a majority."""
        self.view = view
        self._context = context
        self._decided = decided
        self._promised = view.first_ballot
        self._accepted: Ballot = NO_BALLOT
        self._accepted_members: Members = ()
        self._attempt: _Attempt | None = None
        self._is_over = False

    # Leading.

    def lead(self, members: Members) -> None:
        """Have these members in the next view if nothing else was agreed on; again at each tick.

        An attempt that is under way goes on: whom it names too many is left out of the view after that.
        """
        if self._is_over:
            return
        attempt = self._attempt
        if attempt is None or self._promised > attempt.ballot:
            attempt = self._attempt = self._next_attempt(members)
        self._ask(attempt)

    def stop_leading(self) -> None:
        self._attempt = None

    def _next_attempt(self, members: Members) -> _Attempt:
        me = self._context.contact.id
        first = self.view.first_ballot
        if self._promised == first and first[1] == me and self._accepted == NO_BALLOT:
            return _Attempt(first, members, asking=False)
        ballot = (self._promised[0] + 1, bytes(me))
        return _Attempt(ballot, members, asking=True)

    def _ask(self, attempt: _Attempt) -> None:
        group, number = self.view.group, self.view.number + 1
        question: Prepare | Propose = (
            Prepare(group, number, attempt.ballot)
            if attempt.asking
            else Propose(group, number, attempt.ballot, attempt.members)
        )
        for member in self.view.members:
            if member.id not in attempt.votes:
                self._to(member.contact, question)

    def receive_vote(self, sender: Contact, vote: Vote) -> None:
        attempt = self._attempt
        if attempt is None or vote.ballot != attempt.ballot or sender.id not in self.view:
            return
        if vote.promised != attempt.ballot:
            self._promised = max(self._promised, vote.promised)
            self._attempt = None
            return
        if not attempt.asking and vote.accepted != attempt.ballot:
            return  # a late answer to the question before
        attempt.votes[sender.id] = vote
        if self.view.has_majority(attempt.votes):
            self._majority(attempt)

    def _majority(self, attempt: _Attempt) -> None:
        if not attempt.asking:
            self._is_over = True
            self._attempt = None
            self._decided(attempt.members)
            return
        newest = max(attempt.votes.values(), key=lambda vote: vote.accepted)
        if newest.members:
            attempt.members = newest.members
        attempt.asking = False
        attempt.votes = {}
        self._ask(attempt)

    # Voting.

    def receive_prepare(self, sender: Contact, question: Prepare) -> None:
        if question.ballot > self._promised:
            self._promised = question.ballot
        self._vote(sender, question.ballot)

    def receive_propose(self, sender: Contact, proposal: Propose) -> None:
        if proposal.ballot >= self._promised:
            self._promised = proposal.ballot
            self._accepted = proposal.ballot
            self._accepted_members = proposal.members
        self._vote(sender, proposal.ballot)

    def _vote(self, sender: Contact, ballot: Ballot) -> None:
        vote = Vote(
            self.view.group,
            self.view.number + 1,
            ballot,
            self._promised,
            self._accepted,
            self._accepted_members,
        )
        self._to(sender, vote)

    def _to(self, member: Contact, message: BallotMessage) -> None:
        """Send, or take at once what goes to this member itself."""
        me = self._context.contact
        if member.id != me.id:
            self._context.send(member, message)
        else:
            self.receive(me, message)

    def receive(self, sender: Contact, message: BallotMessage) -> None:
        round_, _ = message.promised if isinstance(message, Vote) else message.ballot
        if round_ > self._promised[0] + MOST_AHEAD:
            return
        if isinstance(message, Vote):
            self.receive_vote(sender, message)
        elif isinstance(message, Prepare):
            self.receive_prepare(sender, message)
        elif 0 < len(message.members) <= MOST_MEMBERS:
            self.receive_propose(sender, message)


FRESH_TICKS = 5
"""A newcomer that has not asked for this many ticks is not taken in."""

LATE_TICKS = 2
"""A member that says so soon after a view that it has none may have asked before it was told of the view."""

MOST_VIEWS = 256
"""Views that a distributor remembers to have been in."""

MOST_GROUPS = 64
"""Groups whose latest view is remembered; this one's is always among them."""


class DistributorMembership:
    """One distributor's part in keeping the view; `changed` is called with each new one, or `NO_VIEW`."""

    def __init__(
        self,
        context: Context,
        config: DistributorConfig,
        changed: Callable[[View], None],
    ) -> None:
        self.view = NO_VIEW
        self.me = ViewMember(context.contact, context.random.getrandbits(62))
        self._context = context
        self._config = config
        self._changed = changed
        self._agreement: Agreement | None = None
        self._known: dict[PeerId, Contact] = {}
        self._hosts: tuple[Contact, ...] = ()
        """The members of a group that is to take this one in."""
        self._asked: dict[PeerId, tuple[ViewMember, float]] = {}
        """The distributors without a view, and when each last said so."""
        self._suspected: dict[PeerId, None] = {}
        """Members of this view: the failure detector watches these, and begins anew with who comes back."""
        self._gone: dict[PeerId, None] = {}
        """Members of this view that said goodbye, or that have no view any more."""
        self._latest: dict[Group, View] = {}
        """The latest view that is known of each group, to be told to members that have missed it; nothing
        older is installed."""
        self._installed: dict[tuple[Group, int], None] = {}
        """The views that this one was in, the latest ones."""
        self._leaving = False
        self._installed_at = self._alone_since = context.now()
        self._last_group: Group | None = None
        """The group of the last view, after it was lost."""
        self._cut_off_since: float | None = None

    # What the node says.

    def know(self, contacts: Iterable[Contact]) -> None:
        """Take these contacts for all known distributors; some may have stopped."""
        self._known = {contact.id: contact for contact in contacts if contact.id != self.me.id}

    def suspect(self, peer: PeerId) -> None:
        """The failure detector believes that a member has crashed; of others it says nothing that counts."""
        if peer in self.view:
            self._suspected[peer] = None
            self._lead_if_due()

    def restore(self, peer: PeerId) -> None:
        """A suspected member was heard again."""
        self._suspected.pop(peer, None)

    def leave(self) -> None:
        """Say goodbye: the others make a view without this one."""
        self._leaving = True
        hello = ViewHello(self.view.group, self.view.number, (), self.me.run, True)
        self._tell(_contacts(self.view), hello)

    def tick(self) -> None:
        """Ask, lead and greet again; called every `DistributorConfig.tick` seconds."""
        if self._leaving:
            return
        self._forget_old()
        if not self.view:
            hosts = {host.id: host for host in (*self._known.values(), *self._hosts)}
            self._tell(hosts.values(), self._hello())
            self._found_if_due()
            return
        self._lead_if_due()
        self._greet()
        self._reform_if_due()

    def _greet(self) -> None:
        """Tell a member the view, which it may have missed, and a stranger, who may be of another group."""
        others = [member for member in _contacts(self.view) if member.id != self.me.id]
        strangers = [one for one in self._known.values() if one.id not in self.view]
        for group in (others, strangers):
            if group:
                self._context.send(self._context.random.choice(group), self._hello())

    def was_in(self, group: Group, number: int) -> bool:
        """Whether this one was in a view; of views long past it does not know."""
        return (group, number) in self._installed

    @property
    def is_cut_off(self) -> bool:
        """Whether too few members of the view seem to be there to agree on another one: the others are
        suspected, or have come back as new members."""
        staying = [one.id for one in self.view.members if not self._is_out(one.id)]
        return bool(self.view) and not self.view.has_majority(staying)

    # What others say.

    def receive_hello(self, sender: Contact, hello: ViewHello) -> None:
        if hello.leaving:
            self._asked.pop(sender.id, None)
            if self.view.has(sender.id, hello.run):
                self._set_gone(sender)
        elif not hello.number:
            now = self._context.now()
            self._asked[sender.id] = (ViewMember(sender, hello.run), now)
            is_back = not self.view.has(sender.id, hello.run)
            if is_back or now - self._installed_at >= LATE_TICKS * self._config.tick:
                self._set_gone(sender)
            if self.view:
                self._context.send(sender, self._hello())
        elif 0 < len(hello.members) <= MOST_MEMBERS and self._may_be(hello):
            self._hear(sender, View(hello.group, hello.number, hello.members))

    def _may_be(self, hello: ViewHello) -> bool:
        latest, generation = self._latest.get(hello.group, NO_VIEW), hello.group[0]
        return (
            0 < hello.number <= latest.number + MOST_AHEAD
            and 0 <= generation <= self.view.group[0] + MOST_AHEAD
        )

    def receive_ballot(self, sender: Contact, message: BallotMessage) -> None:
        view = self.view
        if self._agreement is None or message.group != view.group:
            self._tell_if_missed(sender, message.group, message.number - 1)
        elif message.number <= view.number:
            self._context.send(sender, self._hello())  # it has missed a view
        elif message.number == view.number + 1 and sender.id in view:
            self._agreement.receive(sender, message)

    def _tell_if_missed(self, sender: Contact, group: Group, number: int) -> None:
        """Tell a view to one that has an earlier one, though this distributor is not in it itself."""
        latest = self._latest.get(group)
        if latest is not None and latest.number > number:
            self._context.send(sender, self._hello(latest))

    def _hear(self, sender: Contact, told: View) -> None:
        """Hear of a view that was agreed on, from any distributor."""
        mine = self.view
        latest = self._latest.get(told.group)
        newer = latest is None or told.number > latest.number
        if newer:
            self._latest[told.group] = told
        if not mine:
            if newer and self._is_in(told):
                self._install(told)
            else:
                # Not asked at once: each of them answers with its view.
                self._hosts = _contacts(told)
                self._tell_if_missed(sender, told.group, told.number)
        elif told.group < mine.group:
            self._hear_of_stronger(sender, told, mine)
        elif told.group > mine.group or told.number < mine.number:
            self._context.send(sender, self._hello())
        elif newer and self._is_in(told):
            self._install(told)
        elif newer:
            self._let_go()
            self._join(told)

    def _hear_of_stronger(self, sender: Contact, told: View, mine: View) -> None:
        """Another group takes this one in, if one of its own members says that it is there."""
        if sender.id not in told:
            self._tell(_contacts(told), self._hello())
            return
        self._tell(_contacts(mine), self._hello(told))
        self._let_go()
        self._join(told)

    def _join(self, view: View) -> None:
        self._hosts = _contacts(view)
        self._tell(self._hosts, self._hello())

    # The view.

    def _lead_if_due(self) -> None:
        view, agreement = self.view, self._agreement
        if agreement is None or self._leaving:
            return
        staying = [member for member in view.members if not self._is_out(member.id)]
        if not staying or staying[0].id != self.me.id:
            agreement.stop_leading()
            return
        newcomers = sorted((one for one, _ in self._asked.values()), key=lambda one: one.id)
        newcomers = [one for one in newcomers if not view.has(one.id, one.run)]
        back = [one.id for one in newcomers]
        wanted = (*(one for one in staying if one.id not in back), *newcomers)
        if wanted != view.members:
            agreement.lead(wanted[:MOST_MEMBERS])

    def _forget_old(self) -> None:
        fresh = self._context.now() - FRESH_TICKS * self._config.tick
        self._asked = {peer: one for peer, one in self._asked.items() if one[1] >= fresh}
        for group in list(self._latest)[:-MOST_GROUPS]:
            if group != self.view.group:
                del self._latest[group]

    def _is_out(self, peer: PeerId) -> bool:
        return peer in self._suspected or peer in self._gone

    def _decided(self, members: tuple[ViewMember, ...]) -> None:
        before = self.view
        view = View(before.group, before.number + 1, members)
        everyone = {member.id: member for member in (*_contacts(before), *_contacts(view))}
        self._tell(everyone.values(), self._hello(view))
        self._latest[view.group] = view
        if self._is_in(view):
            self._install(view)
        else:
            self._let_go()

    def _install(self, view: View) -> None:
        self.view = view
        self._agreement = Agreement(view, self._context, self._decided)
        self._gone = {}
        # Nobody takes back the suspicion of one that is left out: it would be put out again each time.
        self._suspected = {peer: None for peer in self._suspected if peer in view}
        for member in view.members:
            self._asked.pop(member.id, None)
        self._cut_off_since = None
        self._installed_at = self._context.now()
        remember(self._installed, (view.group, view.number), None, MOST_VIEWS)
        self._changed(view)

    def _let_go(self) -> None:
        """Have no view: this one was left out, or joins another group."""
        self._last_group = self.view.group
        self.view, self._agreement = NO_VIEW, None
        self._gone = {}
        self._suspected = {}
        self._alone_since = self._context.now()
        self._changed(NO_VIEW)

    def _set_gone(self, sender: Contact) -> None:
        if sender.id in self.view:
            self._gone[sender.id] = None
            self._lead_if_due()

    # Groups.

    def _found_if_due(self) -> None:
        now, group = self._context.now(), self._last_group
        patience = self._config.found_after if group is None else self._config.reform_after
        if patience is None or now - self._alone_since < patience:
            return
        rivals = [one.id for one, asked in self._asked.values() if asked > now - patience]
        if all(self.me.id < rival for rival in rivals):
            self._found(0 if group is None else group[0] + 1)

    def _reform_if_due(self) -> None:
        now = self._context.now()
        if not self.is_cut_off:
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = now
        elif (
            self._config.reform_after is not None
            and now - self._cut_off_since >= self._config.reform_after
        ):
            self._found(self.view.group[0] + 1)

    def _found(self, generation: int) -> None:
        group = (generation, self.me.id + self._context.random.randbytes(4))
        view = self._latest[group] = View(group, 1, (self.me,))
        self._install(view)

    def _is_in(self, view: View) -> bool:
        """Whether this one is a member, and not an earlier run of it."""
        return view.has(self.me.id, self.me.run)

    def _hello(self, view: View | None = None) -> ViewHello:
        """What this one says of a view; of its own, or that it has none, if none is given."""
        view = view or self.view
        return ViewHello(view.group, view.number, view.members, self.me.run, False)

    def _tell(self, contacts: Iterable[Contact], hello: ViewHello) -> None:
        for contact in list(contacts):
            if contact.id != self.me.id:
                self._context.send(contact, hello)


def _contacts(view: View) -> tuple[Contact, ...]:
    return tuple(member.contact for member in view.members)
