"""Find an archive that manages a topic, and choose among several (sections 4.3 and 9.1).

The directory names the nodes that manage a topic or one of its super-topics; each is asked, at growing
intervals, until one answers. Among those that answer within a moment, the nearest (by round trip) of the
least loaded ones is chosen. Of several topics that are managed, the nearest to the one asked for counts, so
that publishers and subscribers meet: nothing is chosen before the directory has answered for every nearer
one, and its archives had a moment. A lookup of which nothing is heard for `LOOKUP_PATIENCE` seconds is asked
again: a directory may lose a question when nodes come and go.

This is not `pubsub.reliable.primary`, which tries servers one after another: all are asked at once here, as
the choice goes by their loads and round trips, and the highest number that any of them has is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from overlay.contact import Contact, PeerId
from overlay.context import Context, OneTimer
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.messages import Discover, Offer

FIRST_WAIT = 0.5
LONGEST_WAIT = 3.0
LOOKUP_PATIENCE = 10.0
MOST_ASKED = 16
"""Archives of one topic that are asked."""

Lookup = Callable[[str, Callable[[tuple[Contact, ...]], None]], None]
"""Ask the directory for nodes that manage exactly this topic; answered at once or later, or never."""


def archives_of(topic: str) -> str:
    """The archives that manage exactly this topic; no topic has such a name."""
    return f"archive:{topic}"


@dataclass(frozen=True, slots=True)
class FoundArchive:
    """An archive that answered."""

    archive: Contact
    topic: str
    """What it manages."""
    replica: bytes
    load: float
    round_trip: float
    catenation: int
    """The last one of the publisher that asked, as far as this archive knows."""
    time: int
    """The time of this archive's clock, in whole seconds since 1970."""


class Finder:
    """One search for an archive; a core. It goes on until it has found one or is stopped."""

    def __init__(
        self,
        context: Context,
        topics: tuple[str, ...],
        publisher: bytes,
        lookup: Lookup,
        config: DurableConfig,
        found: Callable[[FoundArchive], None],
        avoid: PeerId | None = None,
        *,
        lowest: bool = False,
    ) -> None:
        """`topics`: the topic asked for and its super-topics, the nearest first. `avoid`: an archive that has
        just failed, taken only if there is no other. `lowest`: take the replica with the lowest name, which
        serves shared names."""
        self._lowest = lowest
        self._context = context
        self._topics = topics
        self._publisher = publisher
        self._lookup = lookup
        self._config = config
        self._found = found
        self._avoid = avoid
        self._looking: dict[str, float] = {}
        """Topics for which the directory has not answered, and when it was asked."""
        self._asked: dict[int, tuple[Contact, str, float]] = {}
        self._offers: dict[tuple[PeerId, str], FoundArchive] = {}
        self._wait = FIRST_WAIT
        self._again = OneTimer(context.call_later, self._repeat)
        self._listening = OneTimer(context.call_later, self._listened)
        self._has_listened: bool | None = None
        """Whether those who were asked have had their moment; None before anybody has answered."""
        self._stopped = False

    def start(self) -> None:
        now = self._context.now()
        topics = [
            topic
            for topic in self._topics
            if now - self._looking.get(topic, -LOOKUP_PATIENCE) >= LOOKUP_PATIENCE
        ]
        self._looking.update(dict.fromkeys(topics, now))
        self._again.set(self._wait)
        for topic in topics:
            self._lookup(topic, partial(self._ask, topic))

    def stop(self) -> None:
        self._stopped = True
        self._again.close()
        self._listening.close()

    def receive(self, sender: Contact, offer: Offer) -> None:
        asked = self._asked.pop(offer.nonce, None)
        if asked is None or asked[0].id != sender.id or asked[1] != offer.topic or self._stopped:
            return
        trip = self._context.now() - asked[2]
        found = FoundArchive(
            sender, offer.topic, offer.replica, offer.load, trip, offer.catenation, offer.time
        )
        self._offers[sender.id, offer.topic] = found
        if self._has_listened is None:
            self._listen()
        self._choose_if_settled()

    def _ask(self, topic: str, contacts: tuple[Contact, ...]) -> None:
        self._looking.pop(topic, None)
        if self._stopped:
            return
        for contact in contacts[:MOST_ASKED]:
            nonce = self._context.random.getrandbits(63)
            self._asked[nonce] = (contact, topic, self._context.now())
            self._context.send(contact, Discover(topic, nonce, self._publisher))
        if contacts and self._offers and self._topics.index(topic) < self._nearest():
            self._listen()
        self._choose_if_settled()

    def _listen(self) -> None:
        """Give those who have been asked a moment to answer."""
        self._listening.cancel()
        self._has_listened = False
        self._listening.set(self._config.listen)

    def _listened(self) -> None:
        self._has_listened = True
        self._choose_if_settled()

    def _repeat(self) -> None:
        self._wait = min(self._wait * 2, LONGEST_WAIT)
        self._asked.clear()
        self.start()

    def _nearest(self) -> int:
        """The place of the nearest topic of which an archive has answered."""
        return min(self._topics.index(one.topic) for one in self._offers.values())

    def _choose_if_settled(self) -> None:
        """Choose once no answer can come any more that would be better."""
        if not self._offers:
            return
        nearest = self._nearest()
        if any(topic in self._looking for topic in self._topics[:nearest]):
            return
        awaited = (topic for _, topic, _ in self._asked.values())
        if self._has_listened or not any(self._topics.index(one) <= nearest for one in awaited):
            self._choose(self._topics[nearest])

    def _choose(self, topic: str) -> None:
        offers = [one for one in self._offers.values() if one.topic == topic]
        others = [one for one in offers if one.archive.id != self._avoid]
        chosen = (
            min(others or offers, key=lambda one: one.replica)
            if self._lowest
            else choose(others or offers)
        )
        catenation = max(one.catenation for one in offers)
        self.stop()
        self._found(replace(chosen, catenation=catenation))


def choose(offers: list[FoundArchive]) -> FoundArchive:
    """The nearest of those with at most twice the least load, where 100 events a second count as none."""
    least = min(one.load for one in offers)
    light = [one for one in offers if one.load <= 2 * least + 100]
    return min(light, key=lambda one: (one.round_trip, one.archive.id))
