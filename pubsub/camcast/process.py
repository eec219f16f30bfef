"""One process and all the communities it takes part in.

It hands each message to the community that it concerns, answers for all of them where a question names no
community, and is what a community's neighbours see after it was left: for as long as somebody may hold a
lease, the process counts as a member (see `pubsub.camcast.leases`), takes events, and passes none on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from overlay.channel.buffer import Until
from overlay.contact import Contact, PeerId
from overlay.context import Timer
from pubsub.camcast.bootstrap import NEIGHBOURS_ASKED
from pubsub.camcast.community import Community, Deliver, Services
from pubsub.camcast.heard import HeardEvents
from pubsub.camcast.latest import AskLatest, LastValues, Latest
from pubsub.camcast.leases import Leases
from pubsub.camcast.messages import (
    AnnounceBlocks,
    Check,
    CheckAnswer,
    FetchBlocks,
    FindSuper,
    Goodbye,
    NewProcesses,
    NewProcessesAnswer,
    Prune,
    ShareSuper,
    SuperFound,
)
from pubsub.camcast.observer import ONE, EventDrops
from pubsub.camcast.parameters import Parameters
from pubsub.event import Block, Copy, origin_of
from pubsub.gate import Rule
from pubsub.rights import Action, Holder
from pubsub.topic import Topic, included

QUESTIONS_REMEMBERED = 1024
"""How many searches of others are known again, so that each is handed on once."""


def members_only(peer: Holder, message: Any) -> bool:
    """The rule of what only those say who publish or subscribe to the message's topic."""
    return peer.may_publish_or_subscribe(message.topic)


RULES: Mapping[type, Rule] = {
    # Those of a subtopic ask these of a super-community; they are given leases and names, and no events.
    Check: lambda peer, message: peer.is_near(message.topic),
    FindSuper: lambda peer, message: any(map(peer.is_near, message.topics)),
    NewProcesses: lambda peer, message: peer.is_near(message.topic),
    CheckAnswer: members_only,
    SuperFound: lambda peer, message: not message.topic or peer.is_near(message.topic),
    NewProcessesAnswer: members_only,
    ShareSuper: members_only,
    AnnounceBlocks: lambda peer, message: peer.is_near(message.topic),
    FetchBlocks: lambda peer, message: peer.may(Action.SUBSCRIBE, message.topic),
    Prune: lambda peer, message: peer.may(Action.SUBSCRIBE, message.topic),
    AskLatest: lambda peer, message: peer.may(Action.SUBSCRIBE, message.topic),
    Latest: lambda peer, message: peer.is_near(message.topic),
}
"""In a network with an authority: whose messages are taken. What a block may be, its signature says."""


class Process:
    """All of CAMCAST on one process; a core."""

    def __init__(self, services: Services, parameters: Parameters | None = None) -> None:
        self.services = services
        self.parameters = parameters or Parameters()
        self.communities: dict[str, Community] = {}
        self._leaving: dict[str, tuple[Timer, HeardEvents, Until]] = {}
        self._context = services.control
        self._questions: dict[tuple[PeerId, int], None] = {}
        self._drops = EventDrops(services.metrics, services.trace)
        self.leases = Leases(
            services.questions,
            services.carrier,
            self._promise,
            self._gone,
            self._parameters_in,
            services.metrics,
            self._drops,
            services.may_receive,
            self._mute,
        )
        self.last_values = LastValues(
            self._context, self.communities, self.leases, services.refusal, services.metrics
        )
        self.handlers: Mapping[type, Callable[[Contact, Any], None]] = {
            Copy: self._receive_copy,
            Check: self.leases.receive_check,
            CheckAnswer: self.leases.receive_answer,
            Goodbye: self._receive_goodbye,
            FindSuper: self._receive_find_super,
            SuperFound: self._receive_super_found,
            NewProcesses: self._receive_new_processes,
            NewProcessesAnswer: self._receive_new_processes_answer,
            ShareSuper: self._receive_share,
            AnnounceBlocks: self._receive_about_events,
            FetchBlocks: self._receive_about_events,
            Prune: self._receive_about_events,
            AskLatest: self.last_values.receive_question,
            Latest: self.last_values.receive_answer,
        }
        """What takes each of CAMCAST's own messages; those of membership services have handlers by topic."""

    def is_in(self, topic: str) -> bool:
        """Whether this process counts as a member of the topic's community, the time of leaving included."""
        return topic in self.communities or self.leases.is_promised(topic)

    def join(
        self, topic: Topic, deliver: Deliver | None, parameters: Parameters | None = None
    ) -> Community:
        """Take part in a community from now on; `deliver`, if any, is given each block with new events."""
        parameters = parameters or self.parameters
        heard = HeardEvents(parameters.duplicate_lifetime, parameters.duplicate_capacity)
        if topic.name in self._leaving:
            # Others may still send or announce what it had before it left.
            timer, heard, goodbyes = self._leaving.pop(topic.name)
            timer.cancel()
            goodbyes.at = -inf
            heard.resize(parameters.duplicate_lifetime, parameters.duplicate_capacity)
        community = self.communities[topic.name] = Community(
            topic, parameters, self, deliver, heard
        )
        for other in self.communities.values():
            other.super_tables.prune()
        community.start()
        return community

    def leave(self, topic: str) -> None:
        """Leave a community: the goodbyes go out now, and membership ends with the last lease."""
        community = self.communities.pop(topic)
        community.stop()
        wait = self.leases.granted_until(topic) - self._context.now()
        if wait > 0:
            timer = self._context.call_later(wait, lambda: self._left(topic))
            self._leaving[topic] = (timer, community.heard, community.goodbyes)
        else:
            self.leases.has_left(topic)
        for other in self.communities.values():
            if other.super_tables.missing():
                other.search.start()

    def close(self) -> None:
        """Leave everything at once, as one who stops altogether.

        What was sent under its leases may still arrive until its node has closed: it is taken as from one
        who leaves, and is not a parasite."""
        for community in self.communities.values():
            community.stop()
        for timer, *_ in self._leaving.values():
            timer.cancel()
        self.communities.clear()
        self._leaving.clear()
        self.last_values.close()
        self.leases.close()

    def receive(self, sender: Contact, message: object) -> None:
        """Take any message as its handler would; for a Stage, which has no runtime that finds the handler."""
        handler = self.handlers.get(type(message))
        if handler is not None:
            handler(sender, message)
        elif (community := self.communities.get(getattr(message, "topic", ""))) is not None:
            community.membership.receive(sender, message)

    def suspect(self, peer: PeerId) -> None:
        """The failure detector believes that `peer` has crashed."""
        self.leases.revoke(peer)
        for community in list(self.communities.values()):
            community.gone(peer)

    def _parameters_in(self, topic: str) -> Parameters:
        """Those of the community, or those for all topics where this process is not in it."""
        community = self.communities.get(topic)
        return self.parameters if community is None else community.parameters

    def _promise(self, topic: str) -> float:
        community = self.communities.get(topic)
        return community.parameters.lease if community is not None else 0.0

    def _left(self, topic: str) -> None:
        del self._leaving[topic]
        self.leases.has_left(topic)

    def _gone(self, contact: Contact, topic: str) -> None:
        for community in list(self.communities.values()):
            community.gone(contact.id, topic)

    def _mute(self, contact: Contact, topic: str) -> None:
        community = self.communities.get(topic)
        if community is not None:
            community.mute(contact.id)

    def rights_changed(self) -> None:
        """Rights were taken back: those who lost theirs are sent nothing more."""
        self.leases.check_rights()

    def hand_up(self, topic: str, block: Block, hops: int) -> None:
        """Give a block that is new in a community to the super-communities that this process is in."""
        for name, community in list(self.communities.items()):
            if name != topic and included(name, block.topic, block.lineage):
                community.receive_own(block, hops)

    def _receive_copy(self, sender: Contact, copy: Copy) -> None:
        community = self.communities.get(copy.community)
        if community is not None:
            community.receive(sender, copy)
            return
        reason = self._why_dropped(copy.community)
        origin = origin_of(copy.block)
        if origin is None:
            self._drops.add(reason, copy.community, peer=sender.id)
        else:
            source, first, count = origin
            numbers = (range(first, first + count),)
            self._drops.add(reason, copy.community, source, numbers, sender.id)
        self._context.send(sender, Goodbye(copy.community))

    def _receive_about_events(
        self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune
    ) -> None:
        community = self.communities.get(message.topic)
        if community is not None:
            community.receive_about_events(sender, message)
        elif isinstance(message, AnnounceBlocks):
            reason = self._why_dropped(message.topic)
            self._drops.add(reason, message.topic, None, ONE, sender.id)
            self._context.send(sender, Goodbye(message.topic))

    def _why_dropped(self, topic: str) -> str:
        """Why events of a community that this process does not take part in are dropped."""
        return "leaving" if self.leases.is_promised(topic) else "parasite"

    def _receive_goodbye(self, sender: Contact, goodbye: Goodbye) -> None:
        self.leases.revoke(sender.id, goodbye.topic)
        self._gone(sender, goodbye.topic)

    def _receive_find_super(self, sender: Contact, question: FindSuper) -> None:
        """Answer from what is known of any community, else hand the question on (figure 5, lines 4 to 13)."""
        if question.origin.id == self._context.contact.id:
            return
        known = (question.origin.id, question.nonce)
        if known in self._questions:
            return
        if len(self._questions) >= QUESTIONS_REMEMBERED:
            del self._questions[next(iter(self._questions))]
        self._questions[known] = None
        for topic in question.topics:
            contacts = self._known_in(topic)
            if contacts:
                self._context.send(question.origin, SuperFound(question.nonce, topic, contacts))
                return
        if sender.id == question.origin.id:
            self._context.send(sender, SuperFound(question.nonce, "", ()))
        self._hand_on(question)

    def _known_in(self, topic: str) -> tuple[Contact, ...]:
        z = self._parameters_in(topic).z
        community = self.communities.get(topic)
        if community is not None:
            others = community.table
            others = tuple(self._context.random.sample(others, min(z - 1, len(others))))
            return (self._context.contact, *others)
        for community in self.communities.values():
            for table in community.super_tables.linked():
                if table.topic.name == topic:
                    return table.contacts
        return ()

    def _hand_on(self, question: FindSuper) -> None:
        ttl = min(question.ttl, self.parameters.search_ttl) - 1
        if ttl < 0:
            return
        neighbours = {m.id: m for c in self.communities.values() for m in c.table}
        neighbours.pop(question.origin.id, None)
        asked = tuple(neighbours.values())
        if len(asked) > NEIGHBOURS_ASKED:
            asked = tuple(self._context.random.sample(asked, NEIGHBOURS_ASKED))
        onward = FindSuper(question.origin, question.nonce, question.topics, ttl)
        for neighbour in asked:
            self._context.send(neighbour, onward)

    def _receive_super_found(self, sender: Contact, answer: SuperFound) -> None:
        for community in list(self.communities.values()):
            if community.search.receive(sender, answer):
                return

    def _receive_new_processes(self, sender: Contact, question: NewProcesses) -> None:
        community = self.communities.get(question.topic)
        if community is not None:
            community.receive_new_processes(sender, question)

    def _receive_new_processes_answer(self, sender: Contact, answer: NewProcessesAnswer) -> None:
        for community in list(self.communities.values()):
            community.links.receive_new_processes(sender, answer)

    def _receive_share(self, sender: Contact, share: ShareSuper) -> None:
        community = self.communities.get(share.topic)
        if community is not None:
            community.links.receive_share(sender, share)
