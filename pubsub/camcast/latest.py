"""Last values: what a newcomer is given of before, by those who were in the community already.

Each member keeps the latest block of every topic of its communities, within bounds; nobody else keeps
anything. A newcomer that wants the last values asks a few members, one after another, and says each time what
it has heard of so far, so that each value travels about once. A member answers a process that holds a lease
in the topic, as for any event (`pubsub.camcast.leases`).

There is no order among publishers: of two publishers' events the younger one is the last, by how long ago it
came to the member that answers; of one publisher's run it is the event with the highest number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from overlay.contact import Contact
from overlay.context import Context, Timer
from overlay.metrics import Metrics
from overlay.wire import WireError, message
from pubsub.camcast.leases import Leases
from pubsub.event import NUMBER_BYTES, Block, origin_of, read_block, split_block
from pubsub.topic import included

if TYPE_CHECKING:
    from pubsub.camcast.community import Community

MOST_TOPICS = 1024
"""Topics of one community of which the latest block is kept; the one silent for longest is forgotten."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of these blocks."""

MOST_ASKED = 3
"""Members that a newcomer asks: one that came just now itself has little to tell."""

PATIENCE = 0.5
"""Seconds after which the next member is asked."""

LAST_PATIENCE = 3.0
"""Seconds from the last question until a search ends that nobody has answered: a channel that is opened under
loss, and the lease that an answer needs, may take that long."""

ANSWER_BYTES = 256 * 1024
"""Bytes of blocks in one answer, the latest first, unless one block alone has more."""


@message(0xC2)
class AskLatest:
    """What came last of this topic and each of its subtopics?"""

    topic: str
    nonce: int
    known: tuple[bytes, ...]
    """Sources, each with the number of its last event behind it, of which nothing older is wanted."""


@message(0xC3)
class Latest:
    """The latest blocks of a topic and its subtopics."""

    topic: str
    nonce: int
    ages: tuple[float, ...]
    """For each, how many seconds ago it came."""
    signatures: tuple[bytes, ...]
    blocks: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not len(self.ages) == len(self.signatures) == len(self.blocks) <= MOST_TOPICS:
            raise WireError("wrong_fields")


class Kept(NamedTuple):
    """A block, and when it came."""

    block: Block
    at: float

    @property
    def last(self) -> int:
        return self.block.first + self.block.count - 1

    def replaces(self, other: Kept) -> bool:
        """Whether this is later than another block of the same topic."""
        if self.block.source == other.block.source:
            return self.last > other.last
        return self.at >= other.at


class LatestBlocks:
    """The latest block of each topic of one community."""

    __slots__ = ("_at", "_bytes", "_kept", "_newest")

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        """The topic of which nothing has come for longest first."""
        self._bytes = 0
        self._newest: Block | None = None
        """The block that came last, which is not among them yet: mostly the next one takes its place."""
        self._at = 0.0

    def __len__(self) -> int:
        self._keep_newest()
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        self._keep_newest()
        return iter(tuple(self._kept.values()))

    def add(self, block: Block, at: float) -> None:
        """Keep a block that came at this time, unless a later one of its topic is kept."""
        newest = self._newest
        if newest is not None:
            if newest.source == block.source and newest.topic == block.topic:
                if block.first + block.count > newest.first + newest.count:
                    self._newest, self._at = block, at
                return
            self._keep_newest()
        self._newest, self._at = block, at

    def _keep_newest(self) -> None:
        block, self._newest = self._newest, None
        if block is None:
            return
        new = Kept(block, self._at)
        old = self._kept.get(block.topic)
        if old is not None:
            if not new.replaces(old):
                return
            del self._kept[block.topic]  # last again: the order is that of the latest news
            self._bytes -= len(old.block.encoded)
        self._kept[block.topic] = new
        self._bytes += len(block.encoded)
        while len(self._kept) > MOST_TOPICS or self._bytes > MOST_BYTES:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._bytes -= len(oldest.block.encoded)


class LastValues:
    """Asks and answers for all communities of one process; a core."""

    def __init__(
        self,
        context: Context,
        communities: Mapping[str, Community],
        leases: Leases,
        refusal: Callable[[Block], str | None] | None,
        metrics: Metrics,
    ) -> None:
        """The context's messages should arrive (an acknowledged channel)."""
        self._context = context
        self._communities = communities
        self._leases = leases
        self._refusal = refusal
        self._asked: dict[int, Search] = {}
        self._drops = metrics.family(
            "last_values_dropped", "reason", "Last values of others that were of no use"
        )

    def close(self) -> None:
        """Ask nobody any more; searches end with what they have found."""
        for search in list(self._asked.values()):
            search.finish()

    # -- answering --

    def receive_question(self, sender: Contact, question: AskLatest) -> None:
        topic = question.topic
        answer = answer_with(self._found(question), topic, question.nonce, self._context.now())
        if not answer.blocks:
            self._context.send(sender, answer)
            return

        def tell(is_member: bool) -> None:
            if is_member:
                self._leases.tell(sender, topic, answer)

        self._leases.warm(sender, topic, tell)

    def _found(self, question: AskLatest) -> list[Kept]:
        """The latest blocks that the one who asks does not know of."""
        known = {one[:-NUMBER_BYTES]: one[-NUMBER_BYTES:] for one in question.known[:MOST_TOPICS]}
        best: dict[str, Kept] = {}
        for community in self._communities.values():
            for kept in community.latest:
                block = kept.block
                # A member of a super-topic's community has had the events of this one too.
                if not included(question.topic, block.topic, block.lineage):
                    continue
                told = known.get(block.source)
                if told is not None and kept.last <= int.from_bytes(told, "big"):
                    continue
                other = best.get(block.topic)
                if other is None or kept.replaces(other):
                    best[block.topic] = kept
        return list(best.values())

    # -- asking --

    def ask(
        self,
        topic: str,
        members: Sequence[Contact],
        done: Callable[[list[Kept]], None],
        question: Callable[[str, int, tuple[bytes, ...]], object] = AskLatest,
    ) -> Search:
        """Ask members for the last values of the topic and its subtopics, and add what this process knows.

        `done` is called once, with one block for each topic of which anything is known. `question`: how
        others are asked that are no members."""
        search = Search(self._context, self._asked, topic, members[:MOST_ASKED], done, question)
        for kept in self._found(AskLatest(topic, 0, ())):
            search.take(kept)
        search.start()
        return search

    def receive_answer(self, sender: Contact, answer: Latest) -> None:
        search = self._asked.get(answer.nonce)
        if search is None or search.topic != answer.topic:
            self._drops.add("late")
            return
        now = self._context.now()
        for age, signature, encoded in zip(
            answer.ages, answer.signatures, answer.blocks, strict=True
        ):
            try:
                block = read_block(encoded, search.topic, signature, origin_of(encoded))
                refusal = self._refusal
                if refusal is not None and (reason := refusal(block)) is not None:
                    raise WireError(reason)
            except WireError as error:
                self._drops.add(error.reason)
            else:
                search.take(Kept(block, now - max(0.0, age)))
        search.answered(answer.nonce)


class Search:
    """One newcomer's questions, one member after another."""

    def __init__(
        self,
        context: Context,
        asked: dict[int, Search],
        topic: str,
        members: Sequence[Contact],
        done: Callable[[list[Kept]], None],
        question: Callable[[str, int, tuple[bytes, ...]], object],
    ) -> None:
        self.topic = topic
        self._question = question
        self._context = context
        self._asked = asked
        self._left = list(members)
        self._done = done
        self._found: dict[str, Kept] = {}
        self._nonces: list[int] = []
        self._now: int | None = None
        self._has_answer = self._is_waiting = False
        self._timer: Timer | None = None

    def start(self) -> None:
        self._ask_next()

    def take(self, kept: Kept) -> None:
        known = self._found.get(kept.block.topic)
        if known is None or kept.replaces(known):
            self._found[kept.block.topic] = kept

    def answered(self, nonce: int) -> None:
        self._has_answer = True
        if nonce == self._now or self._is_waiting:
            self._ask_next()

    def finish(self) -> None:
        self.cancel()
        self._done(list(self._found.values()))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for nonce in self._nonces:
            self._asked.pop(nonce, None)

    def _ask_next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._left:
            if self._has_answer or not self._nonces:
                self.finish()
            else:
                self._is_waiting = True
                self._timer = self._context.call_later(LAST_PATIENCE - PATIENCE, self.finish)
            return
        nonce = self._now = self._context.random.getrandbits(62)
        self._nonces.append(nonce)
        self._asked[nonce] = self
        self._timer = self._context.call_later(PATIENCE, self._ask_next)
        known = tuple(
            kept.block.source + kept.last.to_bytes(NUMBER_BYTES, "big")
            for kept in list(self._found.values())[:MOST_TOPICS]
        )
        self._context.send(self._left.pop(0), self._question(self.topic, nonce, known))


def answer_with(found: Iterable[Kept], topic: str, nonce: int, now: float) -> Latest:
    """The answer with as many of these blocks as it has room for, the latest first."""
    chosen: list[Kept] = []
    size = 0
    for kept in sorted(found, key=lambda one: one.at, reverse=True)[:MOST_TOPICS]:
        size += len(kept.block.encoded)
        if chosen and size > ANSWER_BYTES:
            break
        chosen.append(kept)
    return Latest(
        topic,
        nonce,
        tuple(max(0.0, now - kept.at) for kept in chosen),
        tuple(kept.block.signature for kept in chosen),
        tuple(_shortest(kept.block) for kept in chosen),
    )


def _shortest(block: Block) -> bytes:
    """The bytes of the block's last event alone; of all of them where one signature is for all."""
    return block.encoded if block.signature or block.count == 1 else split_block(block)[-1]
