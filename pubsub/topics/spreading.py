"""How knowledge travels: with the next message to a peer, as rumours while it is new, and by gossip for ever.

News goes at once to a few participants drawn at random, a few times. In addition each participant now and
then picks one other and compares fingerprints; only where these differ does the other answer with what it
knows. So participants that agree exchange a few bytes a second, whatever the size of the matrix.

Rumours go no faster than they are acknowledged: where peers or this participant cannot keep up, more of them
would only make everybody later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import OneTimer
from pubsub.reliable.batches import batches
from pubsub.topics.config import TopicMembershipConfig
from pubsub.topics.context import TopicContext
from pubsub.topics.knowledge import Kind, News, NewsItem, TopicKnowledge
from pubsub.topics.messages import PART_BYTES, Knowledge, NumbersOnWire, numbers_size

OpenPeers = Callable[[], list[Contact]]

ITEM_BYTES = 96
"""Of an entry without its filter and numbers, or of a row without its closed channels, at most."""

ID_BYTES = 24
"""Bytes of one closed channel in a row."""


class Spreading:
    """Tells others what they do not know yet. `open_peers` gives those whom it makes sense to tell."""

    def __init__(
        self,
        topic: str,
        context: TopicContext,
        config: TopicMembershipConfig,
        knowledge: TopicKnowledge,
        open_peers: OpenPeers,
        on_heard: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_heard` is called when it has become known that a peer was told something, or was not."""
        self.news = News()
        self.context = context
        self.config = config
        self.knowledge = knowledge
        self._topic = topic
        self._open_peers = open_peers
        self._on_heard = on_heard
        self._on_their_way: dict[PeerId, int] = {}
        """Messages to each that are not acknowledged yet."""
        self._rounds_left = 0
        self._changed_at = context.now()
        self._rumours = OneTimer(context.call_later, self._spread_rumours)
        self._gossip = OneTimer(context.call_later, self._compare_with_one)

    def start(self) -> None:
        """Begin to gossip."""
        self._gossip.set(self.config.gossip_interval * self.context.random.uniform(0.5, 1.5))

    def stop(self) -> None:
        self._rumours.close()
        self._gossip.close()

    def changed(self, item: NewsItem, learned_from: PeerId | None = None) -> None:
        """Something is new: let it be told."""
        self.news.changed(item, learned_from)
        self._changed_at = self.context.now()
        self._rounds_left = self.config.rumour_rounds
        self._arm()

    def tell(self, peer: Contact, *, asks: bool = False, always: bool = True) -> None:
        """Tell a peer what it was not told yet; with `always`, even if that is nothing."""
        untold = self.news.untold(peer.id)
        if untold or always:
            self._send(peer, untold, asks)

    def is_heard_by(self, peer: PeerId, item: NewsItem) -> bool:
        """Whether a peer is known to have been told something."""
        return peer not in self._on_their_way and item not in self.news.untold(peer)

    def tell_everything(
        self, peer: Contact, *, asks: bool = False, has: NumbersOnWire | None = None
    ) -> None:
        """`has` is what a newcomer does not get; it begins with whatever part comes first."""
        self._send(peer, self.knowledge.items(), asks, has)

    def tell_of(self, peer: Contact, participant: PeerId) -> None:
        """Tell a peer of one participant, whether or not it was told before, and all else that is new."""
        items = [NewsItem(Kind.ENTRY, participant), NewsItem(Kind.ROW, participant)]
        self._send(peer, list(dict.fromkeys([*items, *self.news.untold(peer.id)])), asks=False)

    def compare(self, peer: Contact, fingerprint: bytes, *, answer: bool) -> None:
        """A peer has this fingerprint, and its news was taken: answer, if asked to, where ours is another."""
        if fingerprint == self.knowledge.fingerprint:
            self.news.told(peer.id)  # by this participant or by another
        elif answer and self.knowledge.sightings.include_one(peer.id):
            self._send(peer, self.knowledge.items_beside_the_view(), asks=False)
        elif answer and self._is_calm():
            self.tell_everything(peer)
        elif answer:
            self.tell(peer)

    def _is_calm(self) -> bool:
        """Whether no rumours can be on their way any more."""
        return self.context.now() - self._changed_at >= 2 * self.config.gossip_interval

    def _send(
        self,
        peer: Contact,
        items: Sequence[NewsItem],
        asks: bool,
        has: NumbersOnWire | None = None,
    ) -> None:
        about_peer = [] if has is None else [NewsItem(Kind.ENTRY, peer.id)]
        whole = list(batches(items, self._size, PART_BYTES)) or [[]]
        for place, part in enumerate(whole):
            is_last = place == len(whole) - 1
            told = list(dict.fromkeys([*about_peer, *part]))
            message = self._knowledge_of(told, asks and is_last, has)
            if not self.context.try_send(peer, message, partial(self._outcome, peer.id)):
                return
            self._on_their_way[peer.id] = self._on_their_way.get(peer.id, 0) + 1
        if items:
            self.news.told(peer.id)

    def _knowledge_of(
        self, items: Sequence[NewsItem], asks: bool, has: NumbersOnWire | None
    ) -> Knowledge:
        knowledge = self.knowledge
        chosen: dict[Kind, list[PeerId]] = {kind: [] for kind in Kind}
        for kind, of in items:
            chosen[kind].append(of)
        entries = map(knowledge.roster.get, chosen[Kind.ENTRY])
        return Knowledge(
            self._topic,
            tuple(entry for entry in entries if entry is not None),
            tuple(r for r in map(knowledge.matrix.rows.get, chosen[Kind.ROW]) if r is not None),
            knowledge.sightings.wire() if chosen[Kind.SIGHT] else None,
            knowledge.fingerprint,
            asks,
            has,
        )

    def _size(self, item: NewsItem) -> int:
        """About how many bytes an item takes."""
        entry = self.knowledge.roster.get(item.of) if item.kind is Kind.ENTRY else None
        if entry is not None:
            return ITEM_BYTES + len(entry.filter.encode()) + numbers_size(entry.before)
        row = self.knowledge.matrix.rows.get(item.of) if item.kind is Kind.ROW else None
        return ITEM_BYTES + ID_BYTES * len(row.closed) if row is not None else ITEM_BYTES

    def _outcome(self, peer: PeerId, arrived: bool) -> None:
        self._on_their_way[peer] -= 1
        if not self._on_their_way[peer]:
            del self._on_their_way[peer]
        if not arrived:
            self.news.not_told(peer)
        self._on_heard()

    def _arm(self) -> None:
        if not self._rumours.is_set:
            wait = self.config.rumour_interval * self.context.random.uniform(0.5, 1.0)
            self._rumours.set(wait)

    def _spread_rumours(self) -> None:
        config, peers = self.config, self._open_peers()
        idle = [peer for peer in peers if peer.id not in self._on_their_way]
        if len(peers) - len(idle) < config.rumour_fanout * config.rumour_rounds:
            self._rounds_left -= 1
            for peer in self.context.random.sample(idle, min(config.rumour_fanout, len(idle))):
                self.tell(peer, always=False)
        if self._rounds_left > 0 and peers:
            self._arm()

    def _compare_with_one(self) -> None:
        peers = self._open_peers()
        if peers:
            peer = self.context.random.choice(peers)
            if self._is_calm():
                self._send(peer, (), asks=True)
            else:
                self.tell(peer, asks=True)
        self.start()
