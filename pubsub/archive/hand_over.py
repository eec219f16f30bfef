"""A topic changes hands: from one archive to the replicas that are there, or to another archive by name.

`Acceptance` says which topics an archive lets others hand to it, `Departures` gives a topic away,
`HandOverDesk` is an archive's side of `camcast hand-over` and `HandOverRequest` an operator's.

Requests come as datagrams and are repeated. Each hand-over is done once, however often and by however many
it is asked for while it runs; how it ended is told to all who asked, until another one of the same kind
begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from overlay.contact import ANYONE, Address, Contact, PeerId
from overlay.entropy import entropy
from overlay.errors import CamcastError
from overlay.futures import Futures
from overlay.membership.interface import TopicDirectory
from overlay.runtime import Runtime
from overlay.wire import message
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.protocol.finder import archives_of
from pubsub.archive.protocol.managed_topic import ManagedTopic
from pubsub.archive.protocol.replica_table import ReplicaPeer
from pubsub.rights import Action, Holder
from pubsub.topic import Pattern, included

WORKING, DONE, REFUSED = "working", "done", "refused"
"""The states of a hand-over."""


@message(0x90)
class HandOver:
    """An operator asks an archive to hand a topic over; repeated until the answer is `done` or `refused`."""

    topic: str
    to: str
    """`host:port` of the archive that is to have it."""
    within: float
    """Seconds that it may take."""
    nonce: int
    """Tells one wish from the next one; the same in its repetitions."""


@message(0x91)
class HandedOver:
    """How far a hand-over is. An archive that does not take a topic says so with it, too."""

    topic: str
    nonce: int
    """That of the request; 0 in the answer of one archive to another."""
    state: str
    """`working`, `done` or `refused`."""
    why: str
    """Why it was refused or failed; empty otherwise."""


MOST_TOPICS = 1_000
"""Topics that an archive manages at most before it takes no more."""


@dataclass(frozen=True)
class Acceptance:
    """Any node of the network may ask an archive to manage a topic; what no pattern matches is refused."""

    patterns: Sequence[str] = ()
    """Topics, each with its subtopics, or patterns such as `/soccer/*`; none accepts nothing."""
    _parsed: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.patterns, str):
            raise DurableUsageError(
                f"accept is a list of patterns of topics: write [{self.patterns!r}]"
            )
        object.__setattr__(self, "_parsed", tuple(Pattern.of(one) for one in self.patterns))

    def refusal(self, topic: str, managed: int) -> str:
        """Why an archive that manages `managed` topics does not take this one; empty when it does."""
        if not any(
            included(pattern.topic.name, topic, ()) and pattern.matches(topic)
            for pattern in self._parsed
        ):
            accepted = f"{' and '.join(self.patterns)} only" if self.patterns else "none"
            return f"it accepts {accepted}"
        if managed >= MOST_TOPICS:
            return f"it manages {managed} topics, and takes no more"
        return ""


ASK_SECONDS = 0.25
"""How often another archive is asked to manage a topic, until it has caught up."""

WITHIN = 60.0
"""Seconds that giving a topic away may take, unless told otherwise."""


class Departures:
    """One for each archive. What fails leaves the topic managed here as before."""

    def __init__(self, runtime: Runtime, directory: TopicDirectory) -> None:
        self._runtime = runtime
        self._directory = directory
        self._leaving: dict[str, None] = {}
        self._asked: dict[tuple[Address, str], str] = {}
        """Archives that are asked to manage a topic, and why they do not."""

    async def leave(self, core: ManagedTopic, within: float) -> None:
        """Have publishers and subscribers go elsewhere, and return when another replica has everything.

        `ArchiveError` when none that is there and ready has it in time."""
        topic = core.topic
        if topic in self._leaving:
            raise ArchiveError(f"{topic} is being given away already")
        if not any(peer.is_ready for peer in core.replication.table.live()):
            raise ArchiveError(
                f"this is the only archive of {topic} that is there and ready: add a replica first"
            )
        self._leaving[topic] = None
        self._directory.withdraw(archives_of(topic))
        try:
            async with asyncio.timeout(within):
                await Futures("the archive is closed").told(core.leave)
        except TimeoutError:
            if not core.replication.has_left:
                raise ArchiveError(
                    f"{_obstacle(core)} within {within:g} s: it is still managed here"
                ) from None
        finally:
            del self._leaving[topic]
            if not core.replication.has_left:
                core.stay()
                self._directory.announce(archives_of(topic))

    async def have_managed(self, core: ManagedTopic, by: Address, within: float) -> None:
        """Ask the archive at an address to manage a topic too, and return when it has caught up.

        `ArchiveError` when nobody answers there, or it refuses, or does not catch up in time."""
        topic = core.topic
        if by == self._runtime.contact.address:
            raise ArchiveError(f"the archive at {by} is this one")
        self._asked[by, topic] = ""
        try:
            async with asyncio.timeout(within):
                while (peer := _peer_at(core, by)) is None or not peer.is_ready:
                    if why := self._asked[by, topic]:
                        raise ArchiveError(f"the archive at {by} does not take {topic}: {why}")
                    there = Contact(ANYONE, by.host, by.port)
                    self._runtime.send_datagram(there, core.replication.info("manage"))
                    await asyncio.sleep(ASK_SECONDS)
        except TimeoutError:
            why = f"no archive at {by} has answered"
            if _peer_at(core, by) is not None:
                why = f"the archive at {by} has not caught up with {topic}"
            raise ArchiveError(f"{why} within {within:g} s: it is still managed here") from None
        finally:
            del self._asked[by, topic]

    def receive(self, sender: Contact, answer: HandedOver) -> None:
        """Another archive says that it does not take a topic."""
        key = (sender.address, answer.topic)
        if key in self._asked and answer.state == REFUSED:
            self._asked[key] = answer.why or "it does not say why"


def _peer_at(core: ManagedTopic, address: Address) -> ReplicaPeer | None:
    live = core.replication.table.live()
    return next((peer for peer in live if peer.contact.address == address), None)


def _obstacle(core: ManagedTopic) -> str:
    others = sum(1 for _ in core.replication.table.live())
    if not others:
        return f"no other replica of {core.topic} has answered"
    return f"none of the {others} other replicas of {core.topic} has had everything"


MOST_KEPT = 100
"""Hand-overs whose end is remembered; the oldest are forgotten."""

MOST_RUNNING = 100
"""Hand-overs that are under way at one time, and wishes that one of them fulfils; more are refused."""

LONGEST = 3_600.0
"""Seconds that one may take at most."""

Do = Callable[[str, Address, float], Awaitable[None]]
"""Hand a topic over to the archive at an address within the given seconds; a `CamcastError` says why not."""


@dataclass
class _Work:
    task: asyncio.Task[str]
    """It gives why it failed; an empty text when it is done."""
    asked_by: dict[tuple[PeerId, int], None] = field(default_factory=dict)
    """The nodes and the nonces of the wishes that it fulfils."""


class HandOverDesk:
    """Takes requests to hand topics over, does each once and answers; each archive has one."""

    def __init__(self, runtime: Runtime, operators: frozenset[PeerId], do: Do) -> None:
        """`operators`: nodes that may ask; nodes of this machine always may, but with an authority only if
        they have the right to archive. Without a network key anybody can pose as an operator."""
        self._runtime = runtime
        self._operators = operators
        self._do = do
        self._works: dict[tuple[str, Address], _Work] = {}

    async def close(self) -> None:
        tasks = [work.task for work in self._works.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def may_ask(self, peer: Holder, request: HandOver) -> bool:
        """The rule of a network with an authority."""
        return peer.holder in self._operators or peer.may(Action.ARCHIVE, request.topic)

    def receive(self, sender: Contact, request: HandOver) -> None:
        if not sender.address.is_loopback and sender.id not in self._operators:
            why = f"node {sender.id} is not an operator of this archive, which names its operators itself"
            self._answer(sender, request, REFUSED, why)
            return
        try:
            to = Address.parse(request.to)
        except CamcastError as error:
            self._answer(sender, request, REFUSED, str(error))
            return
        work = self._work(sender, request, to)
        if work is None:
            self._answer(sender, request, REFUSED, "too many hand-overs are under way")
        elif not work.task.done():
            self._answer(sender, request, WORKING, "")
        else:
            why = work.task.result()
            self._answer(sender, request, REFUSED if why else DONE, why)

    def _work(self, sender: Contact, request: HandOver, to: Address) -> _Work | None:
        """The work that the request is about: a new one, unless it is under way or was done for it. None
        where too much is under way."""
        key, wish = (request.topic, to), (sender.id, request.nonce)
        work = self._works.get(key)
        if work is None or (work.task.done() and wish not in work.asked_by):
            if sum(not other.task.done() for other in self._works.values()) >= MOST_RUNNING:
                return None
            self._works.pop(key, None)
            work = self._works[key] = _Work(asyncio.create_task(self._run(request, to)))
            self._forget_oldest()
        if len(work.asked_by) >= MOST_RUNNING and wish not in work.asked_by:
            return None
        work.asked_by[wish] = None
        return work

    async def _run(self, request: HandOver, to: Address) -> str:
        try:
            await self._do(request.topic, to, min(max(request.within, 0.0), LONGEST))
        except CamcastError as error:
            return str(error)
        return ""

    def _forget_oldest(self) -> None:
        done = [key for key, work in self._works.items() if work.task.done()]
        for key in done[: max(len(self._works) - MOST_KEPT, 0)]:
            del self._works[key]

    def _answer(self, to: Contact, request: HandOver, state: str, why: str) -> None:
        answer = HandedOver(request.topic, request.nonce, state, why)
        self._runtime.send_datagram(to, answer)


def operator_ids(texts: Sequence[str]) -> frozenset[PeerId]:
    """The ids of operators, given in hexadecimal."""
    try:
        return frozenset(PeerId(bytes.fromhex(text)) for text in texts)
    except (ValueError, CamcastError):
        raise DurableUsageError(
            f"an operator is the id of a node, 40 hexadecimal digits; not each of {list(texts)} is"
        ) from None


REPEAT_SECONDS = 0.5
"""How often the archive is asked."""

PATIENCE = 10.0
"""Seconds in which an archive must answer at all; and for which its last word is waited for after the
deadline."""


async def request_hand_over(
    runtime: Runtime, topic: str, at: Address, to: Address, within: float
) -> None:
    """Return when the archive at one address has handed the topic to the one at another.

    `ArchiveError` when it refuses or fails, with its reason, or does not answer."""
    loop = asyncio.get_running_loop()
    request = HandOver(topic, str(to), within, entropy().getrandbits(63))
    ended: asyncio.Future[HandedOver] = loop.create_future()
    heard_at = began = loop.time()

    def receive(sender: Contact, answer: HandedOver) -> None:
        nonlocal heard_at
        if answer.nonce == request.nonce and sender.address == at:
            heard_at = loop.time()
            if answer.state in (DONE, REFUSED) and not ended.done():
                ended.set_result(answer)

    runtime.on(HandedOver, receive)
    try:
        archive = Contact(ANYONE, at.host, at.port)
        while not ended.done():
            silent = loop.time() - heard_at
            if silent > min(PATIENCE, within) or loop.time() - began > within + PATIENCE:
                raise ArchiveError(f"no archive at {at} has answered for {silent:.2g} s")
            runtime.send_datagram(archive, request)
            await asyncio.wait([ended], timeout=min(REPEAT_SECONDS, within))
    finally:
        runtime.off(HandedOver)
    answer = ended.result()
    if answer.state == REFUSED:
        raise ArchiveError(f"the archive at {at} did not hand {topic} over: {answer.why}")
