"""The topic directory of one node: its memberships kept announced, and questions about topics answered.

This is CAMCAST's view of the overlay (sections 3.3, 5.2.2 and 5.2.3): `contacts` is the paper's
getContact(), by which a process finds its way into a community, and `sample` its searchPeers(), which
gives whole membership tables. Nothing here raises for reasons of the network: what cannot be found is
left out of the answer. Every question is answered exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from overlay.contact import Contact, PeerId
from overlay.directory.announcer import Announcer
from overlay.directory.config import DirectoryConfig
from overlay.directory.locations import Locations
from overlay.directory.messages import Report
from overlay.directory.paths import Visit
from overlay.directory.peers import Peers
from overlay.directory.reading import ShardReader
from overlay.directory.sampler import Sampler
from overlay.directory.survey import ROUGH_POINTS, SURVEY_POINTS, Explorer, TopicSize, topic_size
from overlay.directory.tree import POINT_BITS, point_of, shard_at, topic_key
from overlay.metrics import Metrics
from overlay.steps import Answer, Signal, Steps, Work, answer_to, together

T = TypeVar("T")


def _ignore(_: object = None) -> None: ...


class _Membership:
    """A topic that this node is announced under."""

    def __init__(self) -> None:
        self.announced = Signal()
        """Set when the first announcement has been made."""
        self.next: Answer[None] = Answer()
        """Given when it is time to announce again."""
        self.steps: Steps[None] | None = None


class DirectoryService:
    """Topics by name: who is in one, a uniform sample of it, its size; one for each node of the DHT.

    A core, and a `membership.TopicDirectory`. The node is closed after it.
    """

    def __init__(self, peers: Peers, config: DirectoryConfig, metrics: Metrics) -> None:
        self._peers = peers
        self._context = peers.context
        self._config = config
        self._locations = Locations(peers, config, metrics)
        reader = ShardReader(peers, self._locations, config, metrics)
        self._explorer = Explorer(peers, reader, config)
        self._sampler = Sampler(peers, reader, self._explorer, config, metrics)
        self._announcer = Announcer(peers, self._locations, self._explorer, config, metrics)
        self._memberships: dict[str, _Membership] = {}
        self._leaving: dict[str, Signal] = {}
        """Topics that are being left; each is set when those who held this node have been told."""
        self._running: dict[Steps[Any], None] = {}
        self._asked = 0
        self._open_questions: dict[int, Callable[[], None]] = {}
        """For each question that is not answered yet, what answers it with nothing."""
        self._closed = False

    @property
    def topics(self) -> list[str]:
        """The topics that this node is announced under."""
        return list(self._memberships)

    def announce(self, topic: str, done: Callable[[], None] = _ignore) -> None:
        """Be found under `topic` until it is withdrawn; `done` is called when others can find this node."""
        membership = self._memberships.get(topic)
        if membership is None and not self._closed:
            membership = self._memberships[topic] = _Membership()
            membership.steps = self._run(self._keep_announced(topic, membership))
        if membership is not None:
            self._run(membership.announced.wait(), lambda _: done())

    def withdraw(self, topic: str, done: Callable[[], None] = _ignore) -> None:
        """Not be found under `topic` any more; `done` is called when those who held this node know it."""
        membership = self._memberships.pop(topic, None)
        if membership is not None:
            if membership.steps is not None:
                membership.steps.cancel()
            membership.announced.set()  # the caller that waits for that has changed its mind
            earlier, over = self._leaving.get(topic), Signal()
            self._leaving[topic] = over
            self._run(self._leave(topic, earlier, over))
        leaving = self._leaving.get(topic)
        if leaving is None:
            done()
        else:
            self._run(leaving.wait(), lambda _: done())

    def contacts(
        self, topic: str, count: int, found: Callable[[tuple[Contact, ...]], None]
    ) -> None:
        """Some members other than this node, quickly, from the first leaf that is found."""
        self._answer(self._contacts(topic, count), found, ())

    def sample(self, topic: str, count: int, found: Callable[[tuple[Contact, ...]], None]) -> None:
        """Distinct members other than this node, uniform over all; all if they are fewer."""
        self._answer(self._sample(topic, count), found, ())

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        """About how many members there are, this node included if it is one."""
        nothing = TopicSize(0.0, 0.0)
        self._answer(self._size(topic, ROUGH_POINTS), lambda size: found(float(size)), nothing)

    def count(self, topic: str, found: Callable[[TopicSize], None]) -> None:
        """As `size`, from more leaves, and with the relative standard error of the estimate."""
        self._answer(self._size(topic, SURVEY_POINTS), found, TopicSize(0.0, 0.0))

    def report(self, topic: str, member: Contact, done: Callable[[object], None] = _ignore) -> None:
        """A member that was found does not answer: have those who hold it ask it, and forget it."""
        self._run(self._report(topic_key(topic), member), done)

    def network_changed(self) -> None:
        """Nodes that were lost are back: announce everything again, at once.

        Nothing that is known of where shards are held is to be trusted."""
        self._locations.forget()
        for membership in self._memberships.values():
            membership.next.give(None)

    def close(self, within: float, done: Callable[[], None]) -> None:
        """Withdraw from every topic, for this many seconds at most, and stop; what is left expires.

        Questions under way, and those that still come, are answered with nothing."""
        self._closed = True
        for steps in list(self._running):
            steps.cancel()
        unanswered, self._open_questions = self._open_questions, {}
        for give_up in unanswered.values():
            give_up()
        self._run(self._say_goodbye(within), lambda _: done())

    # The steps.

    def _run(self, work: Work[T], done: Callable[[T], None] = _ignore) -> Steps[T]:
        """Run steps that end with the directory."""
        return Steps(work, done, among=self._running)

    def _answer(self, work: Work[T], found: Callable[[T], None], nothing: T) -> None:
        """Answer a question exactly once: by what the steps find, or by nothing if the directory is
        closed."""
        if self._closed:
            work.close()
            found(nothing)
            return
        self._asked += 1
        number = self._asked

        def answered(result: T) -> None:
            del self._open_questions[number]
            found(result)

        self._open_questions[number] = lambda: found(nothing)
        self._run(work, answered)

    async def _keep_announced(self, topic: str, membership: _Membership) -> None:
        if topic in self._leaving:
            await self._leaving[topic].wait()
        while True:
            membership.next = Answer()
            seconds = await self._announcer.refresh(topic_key(topic))
            membership.announced.set()
            await self._wait(membership.next, seconds)

    async def _wait(self, due: Answer[None], seconds: float) -> None:
        timer = self._context.call_later(seconds, lambda: due.give(None))
        try:
            await due
        finally:
            timer.cancel()

    async def _leave(self, topic: str, earlier: Signal | None, over: Signal) -> None:
        if earlier is not None:
            await earlier.wait()
        await self._announcer.withdraw(topic_key(topic))
        if self._leaving.get(topic) is over:
            del self._leaving[topic]
        over.set()

    async def _say_goodbye(self, within: float) -> None:
        topics = dict.fromkeys([*self._memberships, *self._leaving])
        self._memberships.clear()
        over: Answer[None] = Answer()
        work = together([self._announcer.withdraw(topic_key(topic)) for topic in topics])
        steps = Steps(work, lambda _: over.give(None))
        try:
            await self._wait(over, within)
        finally:
            steps.cancel()

    async def _be_announced(self, topic: str) -> None:
        """Wait for a first announcement that is under way: it learns what a question would ask again."""
        membership = self._memberships.get(topic)
        if membership is not None:
            await membership.announced.wait()

    async def _contacts(self, topic: str, count: int) -> tuple[Contact, ...]:
        await self._be_announced(topic)
        key, draw = topic_key(topic), self._context.random
        visit = Visit(key, draw.getrandbits(32), count + 1)
        point = draw.getrandbits(POINT_BITS)
        await self._explorer.introduce(visit, point)
        path = await self._explorer.path(visit, point)
        found: dict[PeerId, Contact] = {}
        for part in path.parts if path is not None else ():
            found |= {c.id: c for f, c in part.view.contacts.items() if f in part.members}
        found.pop(self._context.contact.id, None)
        if len(found) < count:
            found |= {c.id: c for c in await self._sampler.sample(key, count)}
        return tuple(found.values())[:count]

    async def _sample(self, topic: str, count: int) -> tuple[Contact, ...]:
        await self._be_announced(topic)
        return tuple(await self._sampler.sample(topic_key(topic), count))

    async def _size(self, topic: str, points: int) -> TopicSize:
        await self._be_announced(topic)
        key = topic_key(topic)
        return await topic_size(key, self._peers, self._explorer, self._config, points)

    async def _report(self, topic: PeerId, member: Contact) -> None:
        point = point_of(topic, member.id)
        outline = self._explorer.outline(topic)
        seen = outline.leaf_at(point)
        shard = seen[0] if seen else shard_at(topic, outline.likely_depth(), point)
        request = Report(topic, shard.depth, shard.prefix, member)
        replicas = (await self._locations.of(shard))[: self._config.replicas]
        await together([answer_to(partial(self._peers.ask, r, request)) for r in replicas])
