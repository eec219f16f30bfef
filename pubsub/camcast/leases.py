"""The gate that every block passes: it is sent to a process only while that process promises to be a member.

A *parasite event* is one that reaches a process outside the event's topic and its super-topics. What a table
says may be out of date, and the process that left cannot tell those who still list it: it knows nobody in
its subtopics. So a process is asked (`Check`), and its answer is a *lease*: it will be in the community for
the seconds that it names. The asker counts them from its question, the other from its answer and a tenth
more; a process that leaves or closes goes on counting as a member until its last lease has run out. For that
it remembers one time per community, whatever the number of those who asked.

So no block is handed to the network for a process outside its community, whatever is lost, delayed or
partitioned, while clocks run within a tenth of each other and a process keeps its promise. A channel, which
sends a block again until it is acknowledged, is told for how long it may: a block is not sent again after
the receiver's last known lease. One case is left: a process that crashes and returns under the same identity
forgets its promises. It rejects the event, counts it, and tells the sender (`Goodbye`). An event for a
process without a lease waits for the answer: one round trip, once per lease and only where events flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from overlay.channel.buffer import Until
from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.metrics import Metrics
from pubsub.camcast.messages import Check, CheckAnswer
from pubsub.camcast.observer import EventDrops
from pubsub.camcast.parameters import Parameters
from pubsub.event import Gossip

TRIES = 8
"""How often a question is sent before its time-out. It travels as a plain datagram: where one in five is
lost, three tries would take one live process in twenty for gone, and eight take one in three thousand."""

HELD_BLOCKS = 1024
HELD_BYTES = 4 * 1024 * 1024
"""The most that waits for one answer."""

HELD_OF_OTHERS = 4
"""Blocks of other publishers that wait for it, where a process is told of the further ones and fetches what
it misses: most likely it has them from elsewhere by then."""

MANY_LEASES = 4096
"""When this many leases are held, those that have run out are forgotten."""

CLOCK_MARGIN = 1.1

WITHHELD = "Copies not sent to members that were behind, or had not answered: they were only told."
"""What the counter `events_withheld` counts."""

Confirmed = Callable[[bool], None]
"""Called once: is the process there and in the community?"""


class Carrier(Protocol):
    """Takes blocks to other processes; whether they are acknowledged or may be lost is its own matter.

    It is told of every copy: that it is to be sent (`accepted`), and then either sent or `refused`."""

    @property
    def is_sure(self) -> bool:
        """Whether what is sent arrives unless the process is gone."""
        ...

    def accepted(self, gossip: Gossip, copies: int) -> None:
        """This many copies of the block are to be sent."""
        ...

    def send(self, to: Sequence[Contact], gossip: Gossip, untils: Mapping[PeerId, Until]) -> int:
        """Send a copy to each, or to those that keep up; how many copies have left.

        No copy leaves for a process, not even once more, after the time `untils[its id].at`. Never
        blocks, and never raises for reasons of the network."""
        ...

    def tell(self, to: Contact, message: object, until: Until) -> None:
        """Send a message about events so that it should arrive, and never after the time `until.at`."""
        ...

    def withdraw(self, to: Contact, community: str, source: bytes) -> list[range]:
        """Take back the copies of a source's blocks that have not left for a process: of which events."""
        ...

    def refused(self, gossip: Gossip) -> None:
        """One copy will not be sent."""
        ...

    def suspect(self, peer: PeerId) -> None:
        """`peer` seems to have crashed: nothing that was sent to it is to be waited for."""
        ...


@dataclass(slots=True)
class _Question:
    contact: Contact
    nonce: int
    asked: float
    tries_left: int
    timer: Timer
    held: list[Gossip] = field(default_factory=list)
    held_bytes: int = 0
    waiting: list[Confirmed] = field(default_factory=list)


class Leases:
    """The leases that one process holds and those it has granted."""

    def __init__(
        self,
        control: Context,
        carrier: Carrier,
        promise: Callable[[str], float],
        gone: Callable[[Contact, str], None],
        parameters: Callable[[str], Parameters],
        metrics: Metrics,
        drops: EventDrops,
        may_receive: Callable[[PeerId, str], bool] = lambda peer, topic: True,
        mute: Callable[[Contact, str], None] = lambda contact, topic: None,
    ) -> None:
        """`promise` gives the seconds for which this process will stay in a topic, 0 outside it;
        `gone` is told of a process that does not answer, or answers that it is not in the topic;
        `parameters` are those of a topic: a process has `check_timeout` seconds to answer whether it is in
        it, and is believed for `lease` seconds at most, whatever it says: its right to the topic may end;
        `may_receive`: whether a process has the right to be sent a topic's events; `mute` is told of a member
        that has not."""
        self._may_receive = may_receive
        self._mute = mute
        self._control = control
        self._carrier = carrier
        self._promise = promise
        self._gone = gone
        self._parameters = parameters
        self._renew_before: dict[tuple[PeerId, str], float] = {}
        self._until: dict[tuple[PeerId, str], float] = {}
        self._questions: dict[tuple[PeerId, str], _Question] = {}
        self._granted: dict[str, float] = {}
        self._promises: dict[str, dict[PeerId, Until]] = {}
        """By topic, until when those that were heard last have promised to be members. A process that is
        suspected gets nothing new; what had left before may be sent again as long as its promise holds."""
        self._promised = 0
        """How many these are."""
        self._sure: Sequence[Contact] = ()
        """Those that events were sent to last, if none of their leases has to be renewed before the time
        below; mostly the next block goes to the same list of members."""
        self._sure_topic = ""
        self._sure_until = 0.0
        self._drops = drops
        self._sent = metrics.counter("events_sent", "Copies of events sent.")
        self._withheld = metrics.counter("events_withheld", WITHHELD)

    def send(self, to: Sequence[Contact], gossip: Gossip) -> bool:
        """Send a block to each, now or when it has answered; for those that are not members it is dropped
        and counted. Whether each copy has left, and arrives unless its process is gone."""
        self._carrier.accepted(gossip, len(to))
        now = self._control.now()
        topic, until, renew_before = gossip.community, self._until, self._renew_before
        if to is self._sure and topic == self._sure_topic and now < self._sure_until:
            copies = self._carrier.send(to, gossip, self._promises[topic])
            self._sent.value += copies * gossip.block.count
            return copies == len(to) and self._carrier.is_sure
        ready: list[Contact] = []
        for contact in to:
            key = (contact.id, topic)
            if until.get(key, 0.0) > now:
                ready.append(contact)
                if now > renew_before[key]:
                    self._ask(contact, topic)
            else:
                self._hold(self._ask(contact, topic), gossip)
        copies = 0
        if ready:
            copies = self._carrier.send(ready, gossip, self._promises[topic])
            self._sent.value += copies * gossip.block.count
        if len(ready) == len(to):
            self._sure, self._sure_topic = to, topic
            self._sure_until = min([renew_before[contact.id, topic] for contact in to])
        return copies == len(to) and self._carrier.is_sure

    def send_surely(self, to: Contact, gossip: Gossip, confirmed: Confirmed) -> None:
        """Send the block to one, and tell whether it is in the community."""
        if self.holds(to.id, gossip.community):
            self.send((to,), gossip)
            confirmed(True)
        else:
            self.send((to,), gossip)
            self.confirm(to, gossip.community, confirmed)

    def tell(self, to: Contact, topic: str, message: object) -> None:
        """Send a message about events of the topic to a process that holds a lease."""
        until = self._promises.get(topic, {}).get(to.id)
        if until is not None:
            self._carrier.tell(to, message, until)

    def confirm(self, contact: Contact, topic: str, then: Confirmed | None = None) -> None:
        """Ask `contact` whether it is in `topic`, even when it holds a lease: this is CHECK for one entry."""
        question = self._ask(contact, topic)
        if then is not None:
            question.waiting.append(then)

    def warm(self, contact: Contact, topic: str, then: Confirmed) -> None:
        """Have a lease ready before an event needs it."""
        if self.holds(contact.id, topic):
            then(True)
        else:
            self.confirm(contact, topic, then)

    def holds(self, peer: PeerId, topic: str) -> bool:
        """Whether `peer` may be sent events of the community now."""
        now = self._control.now()
        return now < self._until.get((peer, topic), now)

    def has_left(self, topic: str) -> None:
        """The last promise to stay in `topic` has run out."""
        self._granted.pop(topic, None)

    def granted_until(self, topic: str) -> float:
        """When the last promise to stay in `topic` runs out; a time already past if there is none."""
        return self._granted.get(topic, self._control.now())

    def is_promised(self, topic: str) -> bool:
        """Whether somebody may hold a lease for this process in `topic`."""
        return self.granted_until(topic) > self._control.now()

    def revoke(self, peer: PeerId, topic: str | None = None) -> None:
        """Send `peer` nothing more of `topic`, or of any topic, until it has answered anew.

        Without a topic it seems to have crashed, and what was sent to it is not waited for."""
        self._sure = ()
        if topic is None:
            self._carrier.suspect(peer)
        for key in [k for k in self._until if k[0] == peer and topic in (None, k[1])]:
            del self._until[key], self._renew_before[key]
        if topic is not None:
            self._end_promise(peer, topic)
        for key in [k for k in self._questions if k[0] == peer and topic in (None, k[1])]:
            self._settle(key, 0.0, "not_a_member" if topic else "suspected")

    def check_rights(self) -> None:
        """Send nothing more to those that have no right to receive any more."""
        for topic, promises in [*self._promises.items()]:
            for peer, until in [*promises.items()]:
                if until.at and not self._may_receive(peer, topic):
                    self.revoke(peer, topic)

    def close(self) -> None:
        for question in self._questions.values():
            question.timer.cancel()
            self._refuse(question.contact, question.held, "closed")
        self._questions.clear()

    def receive_check(self, sender: Contact, check: Check) -> None:
        lease = self._promise(check.topic)
        if lease > 0:
            until = self._control.now() + lease * CLOCK_MARGIN
            self._granted[check.topic] = max(until, self._granted.get(check.topic, until))
        self._control.send(sender, CheckAnswer(check.topic, check.nonce, lease))

    def receive_answer(self, sender: Contact, answer: CheckAnswer) -> None:
        key = (sender.id, answer.topic)
        question = self._questions.get(key)
        if question is not None and question.nonce == answer.nonce:
            if answer.lease > 0 and not self._may_receive(*key):
                self._mute(sender, answer.topic)
                self._settle(key, 0.0, "no_right")
            else:
                self._settle(key, answer.lease, "not_a_member")

    def _hold(self, question: _Question, gossip: Gossip) -> None:
        block = gossip.block
        is_told = not (block.eager or gossip.upward) and block.topic == gossip.community
        may_fetch = is_told and gossip.hops > 1 and not gossip.asked_for
        if may_fetch and len(question.held) >= HELD_OF_OTHERS:
            self._withheld.value += block.count
            self._carrier.refused(gossip)
            return
        if len(question.held) >= HELD_BLOCKS or question.held_bytes > HELD_BYTES:
            self._refuse(question.contact, [gossip], "waiting_full")
            return
        question.held.append(gossip)
        question.held_bytes += len(block.encoded)

    def _ask(self, contact: Contact, topic: str) -> _Question:
        key = (contact.id, topic)
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = _Question(
                contact,
                self._control.random.getrandbits(63),
                self._control.now(),
                TRIES,
                self._timer(key),
            )
            self._control.send(contact, Check(topic, question.nonce))
        return question

    def _again(self, key: tuple[PeerId, str]) -> None:
        question = self._questions[key]
        question.tries_left -= 1
        # While its lease runs a process is not given up: its answer may wait behind many events.
        if question.tries_left <= 0 and not self.holds(*key):
            self._settle(key, 0.0, "no_answer")
            return
        question.timer = self._timer(key)
        self._control.send(question.contact, Check(key[1], question.nonce))

    def _timer(self, key: tuple[PeerId, str]) -> Timer:
        wait = self._parameters(key[1]).check_timeout / TRIES
        return self._control.call_later(wait, lambda: self._again(key))

    def _settle(self, key: tuple[PeerId, str], lease: float, otherwise: str) -> None:
        question = self._questions.pop(key)
        question.timer.cancel()
        lease = min(lease, self._parameters(key[1]).lease)
        alive = lease > 0
        if alive:
            self._keep(key, question.asked, lease)
            for gossip in question.held:
                sent = self._carrier.send((question.contact,), gossip, self._promises[key[1]])
                self._sent.value += sent * gossip.block.count
        else:
            self._sure = ()
            self._until.pop(key, None)
            self._renew_before.pop(key, None)
            if otherwise == "not_a_member":
                self._end_promise(*key)
            self._refuse(question.contact, question.held, otherwise)
            if otherwise == "no_answer":
                self._carrier.suspect(key[0])
            if otherwise != "no_right":  # a member that only publishes is there all the same
                self._gone(question.contact, key[1])
        for then in question.waiting:
            then(alive)

    def _refuse(self, contact: Contact, held: list[Gossip], reason: str) -> None:
        for gossip in held:
            block = gossip.block
            self._drops.add(reason, gossip.community, block.source, (block.numbers,), contact.id)
            self._carrier.refused(gossip)

    def _keep(self, key: tuple[PeerId, str], asked: float, lease: float) -> None:
        if self._promised >= MANY_LEASES:
            self._forget_old()
        self._until[key] = asked + lease
        self._renew_before[key] = asked + lease / 2
        peer, topic = key
        promises = self._promises.setdefault(topic, {})
        promise = promises.get(peer)
        if promise is None:
            promises[peer] = Until(asked + lease)
            self._promised += 1
        else:
            promise.at = asked + lease

    def _end_promise(self, peer: PeerId, topic: str) -> None:
        """What was sent to a process is not sent again, unless it promises anew."""
        promise = self._promises.get(topic, {}).get(peer)
        if promise is not None:
            promise.at = 0.0

    def _forget_old(self) -> None:
        now = self._control.now()
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key], self._renew_before[key]
        for topic, promises in list(self._promises.items()):
            kept = {peer: until for peer, until in promises.items() if until.at > now}
            self._promised -= len(promises) - len(kept)
            if kept:
                self._promises[topic] = kept
            else:
                del self._promises[topic]
