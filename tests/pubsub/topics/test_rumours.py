"""Rumours go no faster than they are acknowledged, and a stable view leaves nothing to tell."""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.topics.config import TopicMembershipConfig
from pubsub.topics.context import Outcome
from pubsub.topics.knowledge import Kind, NewsItem, TopicKnowledge
from pubsub.topics.messages import Entry, Knowledge
from pubsub.topics.spreading import Spreading
from tests.pubsub.topics.test_stable_phases import joined

OTHERS = [numbered_contact(number) for number in range(1, 31)]
CONFIG = TopicMembershipConfig()
MOST = CONFIG.rumour_fanout * CONFIG.rumour_rounds


class Channels:
    """The world of one participant, whose messages are acknowledged when the test says so."""

    def __init__(self) -> None:
        self.stage = Stage(1)
        self._context = self.stage.context(numbered_contact(0))
        self.contact = self._context.contact
        self.random = self._context.random
        self.now = self._context.now
        self.sent: list[tuple[PeerId, Outcome]] = []

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._context.call_later(delay, action)

    def send(self, to: Contact, message: object) -> None: ...

    def try_send(self, to: Contact, message: object, outcome: Outcome) -> bool:
        assert isinstance(message, Knowledge)
        self.sent.append((to.id, outcome))
        return True

    def send_datagram(self, to: Contact, message: object) -> None: ...

    def watch(self, contact: Contact) -> None: ...

    def unwatch(self, contact: Contact) -> None: ...


def test_while_nobody_acknowledges_few_are_told_and_the_others_when_they_do() -> None:
    channels = Channels()
    knowledge = TopicKnowledge(channels.contact.id, 100)
    knowledge.merge_entry(Entry(channels.contact, 1, False, 0, bytes(8), "", ()), 0.0)
    spreading = Spreading("/topic", channels, CONFIG, knowledge, lambda: OTHERS)

    def news_for_ten_seconds() -> None:
        for _ in range(100):
            spreading.changed(NewsItem(Kind.ENTRY, channels.contact.id))
            channels.stage.run_for(0.1)

    news_for_ten_seconds()
    first = channels.sent
    assert MOST <= len(first) < MOST + CONFIG.rumour_fanout
    assert len({peer for peer, _ in first}) == len(first), "nobody has two of them on their way"
    channels.sent = []
    for _, outcome in first:
        outcome(True)
    news_for_ten_seconds()
    assert MOST <= len(channels.sent) < MOST + CONFIG.rumour_fanout


def test_one_that_crashed_with_messages_on_their_way_holds_no_rumour_up() -> None:
    channels = Channels()
    knowledge = TopicKnowledge(channels.contact.id, 100)
    open_peers = list(OTHERS)
    spreading = Spreading("/topic", channels, CONFIG, knowledge, lambda: open_peers)
    item = NewsItem(Kind.ENTRY, channels.contact.id)
    for _ in range(100):
        spreading.changed(item)
        channels.stage.run_for(0.1)
    crashed = {peer for peer, _ in channels.sent}
    open_peers[:] = [contact for contact in OTHERS if contact.id not in crashed]
    channels.sent = []
    spreading.changed(item)
    channels.stage.run_for(5.0)
    assert len(channels.sent) == MOST


def test_a_stable_view_leaves_nothing_to_tell_its_members() -> None:
    troupe = joined(1, 12)
    for actor in troupe.alive():
        news = actor.core.membership._spreading.news
        for peer in actor.core.membership.view.members:
            if peer != actor.contact.id:
                kinds = {item.kind for item in news.untold(peer)}
                assert kinds <= {Kind.SIGHT}
