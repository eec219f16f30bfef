"""How the distributors agree on their next view (section 4.1.2): two phases, led by a coordinator.

The coordinator is the most senior member that is not suspected. It proposes the next view's members to
all members of this one (phase one); once a majority of them has accepted, the view is agreed on and told to
everybody in either view (phase two). A coordinator that takes over from a suspected one first asks a
majority what they have accepted, and proposes that if there is anything: so a view that its predecessor may
have told to some is the one that all install. Whoever answers a ballot refuses lower ones from then on.

What holds whatever is lost, repeated, reordered, suspected or partitioned, and whoever crashes and comes
back: no two different views of a group have the same number, and each member installs them in their order.
A distributor that comes back is another member (see `Member`): it votes on nothing that its earlier run may
have voted on. That a new view comes needs a majority that stays in touch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.contact import Contact, PeerId
from overlay.context import Context
from pubsub.distributors.messages import Prepare, Propose, Vote
from pubsub.distributors.protocol.view import NO_BALLOT, Ballot, Member, View

Members = tuple[Member, ...]


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

    def _to(self, member: Contact, message: Prepare | Propose | Vote) -> None:
        """Send, or take at once what goes to this member itself."""
        me = self._context.contact
        if member.id != me.id:
            self._context.send(member, message)
        elif isinstance(message, Vote):
            self.receive_vote(me, message)
        elif isinstance(message, Prepare):
            self.receive_prepare(me, message)
        else:
            self.receive_propose(me, message)
