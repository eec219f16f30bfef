"""The gate: in a network with an authority, what a message asks for is given to those with the right to it.

Each type of message may have a *rule*: what its sender has to be allowed. A message whose sender is known to
be allowed passes at once. One from a stranger waits while the stranger is asked for its rights, which takes
one round trip, once for each pair; what is not allowed then is dropped and counted (`rights_refused`, by
the type of message). Services give their rules when they begin to take messages (`require`).

Whose rights they are, the session proves: so this is a promise of sealed networks. What a peer shows counts
only if its own key holds it; a right that ends, or is taken back, counts no more from then on.

Revocations are events of the topic `REVOCATIONS`, which every node of such a network joins, and reach all
within the time of any event. Who missed one has it from others: two nodes that show each other their rights
compare what they know to be taken back, and each node does so with two members of that topic as it joins and
every `COMPARE_SECONDS`, and with all that it knows when it has learnt something new that way. So a
revocation works within seconds where it arrives, and after `COMPARE_SECONDS` and some seconds at nodes that
were cut off, alone or many together, and are back; some turns later where members hide what they know.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.metrics import Metrics
from overlay.transport.address import block_of
from overlay.transport.guard import QUESTION, RUBBISH
from overlay.wire import message
from pubsub.rights import Action, Authority, Holder, Right, RightError

COMPARE_SECONDS = 30.0
"""Between two comparisons of revocations with members of their topic."""

COMPARED_AT_ONCE = 2
"""With how many: one of them may hide what it knows."""

MOST_SHOWN = 16
"""Rights that one peer may show."""

MOST_BAD = 4
"""Rights that do not count after which the rest of what a peer shows is not looked at."""

MOST_KNOWN = 4096
"""Peers whose rights are known; of more, those that have shown none go first, the newest before, then the one
that was met first. Who goes is asked again when it is there."""

MOST_ASKED = 512
"""Peers that are being asked for their rights; one host cannot have all these places."""

MOST_HELD = 64
"""Messages of one peer that wait for its rights."""

HELD_BYTES = 4 * 1024 * 1024
"""Bytes of these messages, as they came; and of those of all peers together, `HELD_TOTAL`."""

HELD_TOTAL = 64 * 1024 * 1024

TRIES = 4
ANSWER_SECONDS = 1.0
"""Seconds until a peer is asked again for its rights."""

ASK_AGAIN_SECONDS = 10.0
"""A peer that lacks a right may have been given one since: it is asked again after this many seconds."""

NEWS_PAUSE = 0.5
"""Seconds from a revocation that others have told to the comparison with all members known: there may be
more to come. Between two of these are `TELL_SECONDS` at least."""

TELL_SECONDS = 10.0
"""A peer is told all revocations at most once in this many seconds, however often it shows that it lacks
some."""

PAGE_BYTES = 32 * 1024
"""Revocations in one message."""


@message(0xD0)
class ShowRights:
    """These rights I hold; and if I say so (`wanted`), show me yours."""

    rights: tuple[bytes, ...]
    revocations: bytes
    """A digest of the revocations that I know of."""
    wanted: bool


@message(0xD1)
class TakenBack:
    """Revocations that I know of."""

    revocations: tuple[bytes, ...]


Rule = Callable[[Holder, Any], bool]
"""Whether a sender with these rights may send this message."""

Handler = Callable[[Contact, Any], None]


@dataclass(slots=True)
class _Asked:
    contact: Contact
    tries: int
    timer: Timer
    held: list[tuple[object, Handler]] = field(default_factory=list)
    held_bytes: int = 0


class Gate:
    """What one node asks of those whose messages it takes. A core."""

    def __init__(
        self,
        context: Context,
        authority: Authority,
        own: Sequence[bytes],
        metrics: Metrics,
        useless: Callable[[Contact, int], None] = lambda sender, weight: None,
    ) -> None:
        """`own`: the rights of this node; `RightError` when one of them is not valid, or another's.
        `useless(sender, weight)`: what a peer sent was of no use (see `overlay.transport.guard`)."""
        self._context = context
        self._useless = useless
        self.authority = authority
        self.own = Holder(own, authority, context.contact.id)
        self._rules: dict[type, Rule] = {}
        self._known: OrderedDict[PeerId, tuple[Holder, float]] = OrderedDict()
        """What peers have shown, and when."""
        self._asked: dict[PeerId, _Asked] = {}
        self._held_bytes = 0
        self._told: OrderedDict[PeerId, float] = OrderedDict()
        """When peers were told all revocations."""
        self._members: Callable[[], Sequence[Contact]] = tuple
        """With whom revocations are compared."""
        self._compared: Timer | None = None
        self._spread_at = float("-inf")
        """When all of them were, or will be, told of something new."""
        self._refused = metrics.family(
            "rights_refused", "message", "Messages that were dropped: their senders lack the right"
        )
        metrics.gauge("rights_revoked", "Revocations known", lambda: len(authority.revocations))
        self.handlers: Mapping[type, Handler] = {
            ShowRights: self._receive_rights,
            TakenBack: self._receive_revocations,
        }

    def require(self, rules: Mapping[type, Rule]) -> None:
        """Give messages of these types to their handlers only from those that the rule allows."""
        self._rules.update(rules)

    def may(self, peer: PeerId, action: Action, topic: str) -> bool:
        """Whether a peer has shown that it may do this."""
        if peer == self._context.contact.id:
            return self.own.may(action, topic)
        known = self._known.get(peer)
        return known is not None and known[0].may(action, topic)

    def has_lost(self, peer: PeerId, action: Action, topic: str) -> bool:
        """Whether a peer has shown a right to this, which has ended or was taken back."""
        known = self._known.get(peer)
        return known is not None and known[0].has_lost(action, topic)

    def has_rights(self, peer: PeerId) -> bool:
        """Whether a peer has shown any right."""
        known = self._known.get(peer)
        return known is not None and bool(known[0].rights)

    def admit(self, sender: Contact, message: object, handler: Handler, size: int = 0) -> None:
        """Hand the message over if its sender may send it; now, or when the sender has shown its rights.
        `size`: the bytes that it came in."""
        rule = self._rules.get(type(message))
        if rule is None or sender.id == self._context.contact.id:
            handler(sender, message)
            return
        known = self._known.get(sender.id)
        if known is not None and rule(known[0], message):
            handler(sender, message)
        elif known is not None and self._context.now() < known[1] + ASK_AGAIN_SECONDS:
            self._refuse(message)
            self._useless(sender, QUESTION)
        else:
            self._hold(sender, message, handler, size)

    def describe(self) -> dict[str, Any]:
        """What this node holds, what peers have shown, and what was taken back, for people to look at."""
        shown = {peer.hex(): holder.describe() for peer, (holder, _) in self._known.items()}
        return {
            "own": self.own.describe(),
            "shown": {peer: rights for peer, rights in shown.items() if rights},
            "revoked": [right.name for right in self.authority.taken_back()],
        }

    def stop(self) -> None:
        """No timer is left."""
        for asked in self._asked.values():
            asked.timer.cancel()
        self._asked.clear()
        if self._compared is not None:
            self._compared.cancel()

    def _refuse(self, message: object) -> None:
        self._refused.add(type(message).__name__)

    # Asking for rights.

    def _hold(self, sender: Contact, message: object, handler: Handler, size: int) -> None:
        asked = self._asked.get(sender.id)
        if asked is None:
            if len(self._asked) >= MOST_ASKED and not self._make_way_for(sender):
                self._refuse(message)
                return
            timer = self._context.call_later(ANSWER_SECONDS, lambda: self._again(sender.id))
            asked = self._asked[sender.id] = _Asked(sender, 1, timer)
            self._show(sender, wanted=True)
        is_much = asked.held_bytes + size > HELD_BYTES or self._held_bytes + size > HELD_TOTAL
        if len(asked.held) >= MOST_HELD or is_much:
            self._refuse(message)
            return
        asked.held.append((message, handler))
        asked.held_bytes += size
        self._held_bytes += size

    def _make_way_for(self, sender: Contact) -> bool:
        """Whether the block of addresses of which the most are being asked has lost one for another block."""
        blocks = Counter(block_of(asked.contact.host) for asked in self._asked.values())
        ((largest, most),) = blocks.most_common(1)
        if blocks[block_of(sender.host)] + 1 >= most:
            return False
        peers = (p for p, asked in self._asked.items() if block_of(asked.contact.host) == largest)
        self._give_up(next(peers))
        return True

    def _give_up(self, peer: PeerId) -> None:
        asked = self._asked.pop(peer)
        asked.timer.cancel()
        self._held_bytes -= asked.held_bytes
        for held, _ in asked.held:
            self._refuse(held)

    def _again(self, peer: PeerId) -> None:
        asked = self._asked[peer]
        if asked.tries >= TRIES:
            self._give_up(peer)
            return
        asked.tries += 1
        asked.timer = self._context.call_later(ANSWER_SECONDS, lambda: self._again(peer))
        self._show(asked.contact, wanted=True)

    def _show(self, to: Contact, *, wanted: bool) -> None:
        digest = self.authority.digest_revocations()
        self._context.send(to, ShowRights(self.own.rights, digest, wanted))

    def _receive_rights(self, sender: Contact, shown: ShowRights) -> None:
        if shown.wanted:
            self._show(sender, wanted=False)
        if shown.revocations != self.authority.digest_revocations():
            self._tell_revocations(sender)
        asked = self._asked.pop(sender.id, None)
        if asked is not None:
            asked.timer.cancel()
            self._held_bytes -= asked.held_bytes
        else:
            self._useless(sender, QUESTION)
            if sender.id in self._known:
                return  # nobody makes this node check signatures again and again
        before = self._known.pop(sender.id, None)
        holder = self._believed(sender.id, shown.rights)
        if before is not None:
            holder.had(before[0], MOST_SHOWN)
        self._known[sender.id] = (holder, self._context.now())
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        if not holder.rights:
            self._known.move_to_end(sender.id, last=False)  # new identities cost nothing
        for waiting, handler in () if asked is None else asked.held:
            self.admit(sender, waiting, handler)

    def _believed(self, peer: PeerId, rights: Sequence[bytes]) -> Holder:
        """Those of the rights that are valid, and the peer's own."""
        good: list[bytes] = []
        bad = 0
        for packed in rights[:MOST_SHOWN]:
            try:
                if Right.unpack(packed).holder != peer:
                    raise RightError("the right is another's")
                self.authority.check(packed)
                good.append(packed)
            except RightError:
                # It may have ended; who shows many that do not count wastes our time.
                bad += 1
                if bad == MOST_BAD:
                    break
        return Holder(good, self.authority, peer)

    # Revocations.

    def compare_with(self, members: Callable[[], Sequence[Contact]]) -> None:
        """Compare what was taken back with some of the members, now and every `COMPARE_SECONDS`; with all of
        them when others have told this node something new."""
        self._members = members
        self._compare_with_some()

    def _compare_with_some(self) -> None:
        found = self._members()
        self._compare(self._context.random.sample(found, min(COMPARED_AT_ONCE, len(found))))

    def _compare(self, members: Sequence[Contact]) -> None:
        for member in members:
            self._show(member, wanted=True)
        self._compared = self._context.call_later(COMPARE_SECONDS, self._compare_with_some)

    def _spread(self) -> None:
        """Others may have been cut off as this node was, and hear of it from one to the next."""
        now = self._context.now()
        if self._compared is None or self._spread_at > now:
            return
        self._spread_at = max(now + NEWS_PAUSE, self._spread_at + TELL_SECONDS)
        self._compared.cancel()
        self._compared = self._context.call_later(
            self._spread_at - now, lambda: self._compare(self._members())
        )

    def _tell_revocations(self, to: Contact) -> None:
        now = self._context.now()
        if now < self._told.pop(to.id, -TELL_SECONDS) + TELL_SECONDS:
            return
        self._told[to.id] = now
        if len(self._told) > MOST_KNOWN:
            self._told.popitem(last=False)
        page: list[bytes] = []
        size = 0
        for revocation in self.authority.revocations:
            page.append(revocation)
            size += len(revocation)
            if size >= PAGE_BYTES:
                self._context.send(to, TakenBack(tuple(page)))
                page, size = [], 0
        if page:
            self._context.send(to, TakenBack(tuple(page)))

    def _receive_revocations(self, sender: Contact, taken: TakenBack) -> None:
        known = self.authority.digest_revocations()
        for revocation in taken.revocations:
            if not self.authority.take_back(revocation):
                self._refused.add(TakenBack.__name__)
                self._useless(sender, RUBBISH)
                break  # the rest is not worth a check of signatures
        if self.authority.digest_revocations() != known:
            self._spread()
