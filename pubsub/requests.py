"""Requests and replies: ask one of the nodes that serve a name, or all of them, without a broker.

    async for request in node.serve("/quotes"):
        await request.reply(price_of(request.data))

    price = await node.request("/quotes", "CMC", timeout=5.0)
    replies = await node.request_all("/quotes", "CMC", timeout=5.0)

A node that serves a name is found through the directory, as members of a topic are, and is asked over a
channel. What is promised to the one who asks: a reply, or `NoReply` when nobody has replied within the
timeout. A server that is silent for a third of the timeout is given up and another one is asked, so a request
may be served more than once: its `id` stays the same. Names of topics and of requests do not get in each
other's way. `request_all` asks every server that is found and gathers what they reply within the timeout.
Where there is an authority, who asks needs the right to publish on the name, and who serves it
the right to subscribe: each takes the other's word only then. It needs a directory: in mode "unstructured"
without one, nobody is found.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, NamedTuple, Self

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.errors import ClosedError, NetworkError, UsageError
from overlay.membership.interface import TopicDirectory
from overlay.metrics import Metrics
from overlay.wire import Data, message
from pubsub.data import pack_data
from pubsub.reliable.receipts import check_seconds
from pubsub.rights import Action, Holder
from pubsub.servers import SEARCH_SECONDS, Servers, listed

MOST_ASKED = 256
"""Servers of a name that one `request_all` asks."""

MOST_WAITING = 1_000
"""Requests that may wait for one server's program; further ones are refused, and go to another server."""

NOTHING = Data(None)


class NoReply(NetworkError):
    """Nobody has replied in time."""


class RequestFailed(NetworkError):
    """The server has said that it cannot serve the request."""


@message(0xC0)
class Question:
    """Asks a node that serves a name."""

    name: str
    id: bytes
    data: Data


@message(0xC1)
class Answer:
    """The reply to a question; `problem` says why there is none, and is empty otherwise."""

    id: bytes
    data: Data
    problem: str
    again: bool
    """Another server may do better: this one is busy, or does not serve the name any more."""


class Reply(NamedTuple):
    """What one of those who were all asked has replied."""

    server: PeerId
    data: Any
    problem: str
    """Why the server could not serve the request; empty when it could."""


class Asked:
    """One question until its reply: which servers were asked, and which one is asked now. A core."""

    def __init__(
        self,
        context: Context,
        servers: Servers,
        question: Question,
        timeout: float,
        serves_here: Callable[[], bool],
        done: Callable[[Answer | None], None],
    ) -> None:
        """`done` is called once, with the reply, or with None after `timeout` seconds. `serves_here`: whether
        this node serves the name itself, which the directory does not say."""
        self._serves_here = serves_here
        self._context = context
        self._servers = servers
        self._question = question
        self._patience = timeout / 3
        self._done = done
        self._left: list[Contact] = []
        self._tried: dict[PeerId, None] = {}
        """Who is not asked again before all the others were."""
        self._asked: dict[PeerId, None] = {}
        self._now: PeerId | None = None
        self._patience_timer: Timer | None = None
        self._search_timer: Timer | None = None
        self._end = context.call_later(timeout, lambda: self._finish(None))
        self._is_over = False
        self._search()

    @property
    def name(self) -> str:
        return self._question.name

    def _search(self) -> None:
        self._now = None
        self._servers.find(
            self._question.name, self._found, min(SEARCH_SECONDS, self._patience / 2)
        )

    def _found(self, contacts: tuple[Contact, ...]) -> None:
        if self._is_over:
            return
        if self._serves_here():
            contacts = (*contacts, self._context.contact)
        left = [one for one in contacts if one.id not in self._tried]
        self._left = self._servers.in_turn(left)
        if self._left:
            self._ask_next()
        else:
            self._tried.clear()  # all of them were asked: they may be again
            self._search_timer = self._context.call_later(SEARCH_SECONDS, self._search)

    def _ask_next(self) -> None:
        if self._patience_timer is not None:
            self._patience_timer.cancel()
        if not self._left:
            self._search()
            return
        server = self._left.pop()
        self._tried[server.id] = self._asked[server.id] = None
        self._now = server.id
        self._patience_timer = self._context.call_later(self._patience, self._give_up)
        self._context.send(server, self._question)

    def _give_up(self) -> None:
        if self._now is not None:
            self._servers.was_silent(self._now)
        self._ask_next()

    def receive(self, sender: Contact, answer: Answer) -> None:
        """Any server that was asked may reply, one that was given up too."""
        if self._is_over or sender.id not in self._asked:
            return
        self._servers.has_answered(sender.id)
        if not answer.again:
            self._finish(answer)
        elif sender.id == self._now:
            self._ask_next()

    def _finish(self, answer: Answer | None) -> None:
        if not self._is_over:
            self.cancel()
            self._done(answer)

    def cancel(self) -> None:
        self._is_over = True
        self._servers.forget(self._question.name, self._found)
        for timer in (self._end, self._patience_timer, self._search_timer):
            if timer is not None:
                timer.cancel()


class AskedAll:
    """One question to everyone who serves its name, until all have replied or the time is over. A core."""

    def __init__(
        self,
        context: Context,
        directory: TopicDirectory,
        servers: Servers,
        question: Question,
        timeout: float,
        serves_here: Callable[[], bool],
        done: Callable[[list[Reply]], None],
    ) -> None:
        """`done` is called once: when everyone who was found has replied and nobody else is found, or after
        `timeout` seconds."""
        self._context = context
        self._directory = directory
        self._servers = servers
        self._question = question
        self._serves_here = serves_here
        self._done = done
        self._silent: dict[PeerId, None] = {}
        """Who was asked and has not answered yet."""
        self._tried: dict[PeerId, None] = {}
        self._search_timer: Timer | None = None
        self._is_searching = self._is_over = False
        self._replies: list[Reply] = []
        self._end = context.call_later(timeout, self._finish)
        self._known_timer = context.call_later(min(SEARCH_SECONDS, timeout / 4), self._ask_known)
        self._search()

    @property
    def name(self) -> str:
        return self._question.name

    def _search(self) -> None:
        self._is_searching = True
        self._directory.sample(listed(self._question.name), MOST_ASKED, self._found)

    def _found(self, contacts: tuple[Contact, ...]) -> None:
        if self._is_over:
            return
        self._is_searching = False
        self._servers.remember(self._question.name, contacts)
        if self._serves_here():
            contacts = (self._context.contact, *contacts)
        new = self._ask(contacts)
        if not new and self._replies and not self._silent:
            self._finish()
        elif not new:
            self._search_timer = self._context.call_later(SEARCH_SECONDS, self._search)

    def _ask(self, contacts: tuple[Contact, ...]) -> bool:
        """Whether one of them was not asked yet."""
        new = [one for one in contacts if one.id not in self._tried]
        for server in new[: MOST_ASKED - len(self._tried)]:
            self._tried[server.id] = self._silent[server.id] = None
            self._context.send(server, self._question)
        return bool(new)

    def _ask_known(self) -> None:
        """The search takes long: those who are remembered need not wait for it."""
        self._ask(self._servers.known(self._question.name))

    def receive(self, sender: Contact, answer: Answer) -> None:
        if self._is_over or sender.id not in self._silent:
            return
        del self._silent[sender.id]
        if not answer.again:
            self._replies.append(Reply(sender.id, answer.data, answer.problem))
        if not self._silent and not self._is_searching:
            if self._search_timer is not None:
                self._search_timer.cancel()
            self._search()  # somebody may have been hidden by a datagram that was lost

    def _finish(self) -> None:
        self.cancel()
        self._done(self._replies)

    def cancel(self) -> None:
        self._is_over = True
        self._end.cancel()
        self._known_timer.cancel()
        if self._search_timer is not None:
            self._search_timer.cancel()


_Asking = Callable[[Question, float, Callable[[], bool], Callable[[Any], None]], Asked | AskedAll]


class Request:
    """What somebody has asked."""

    def __init__(
        self, answer: Callable[[Answer], None], sender: Contact, question: Question
    ) -> None:
        self._answer = answer
        self._question = question
        self._is_answered = False
        self.data: Any = question.data
        self.sender = sender.id
        """Who asks."""

    @property
    def id(self) -> bytes:
        """The same when the request is asked again, here or of another server."""
        return self._question.id

    async def reply(self, data: Any = None) -> None:
        """Answer; only the first answer to a request counts. `DataError` for data that cannot travel."""
        pack_data(data)
        self._send(Answer(self.id, data, "", False))

    async def fail(self, problem: str) -> None:
        """Say that the request cannot be served: the requester gets `RequestFailed` with this text."""
        if not problem or not isinstance(problem, str):
            raise UsageError("say in a sentence why the request cannot be served")
        pack_data(problem)
        self._send(Answer(self.id, NOTHING, problem, False))

    def _send(self, answer: Answer) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._answer(answer)


class Serving:
    """The requests of one name that come to this node, one after the other, in `async for`."""

    def __init__(self, requests: Requests, name: str) -> None:
        self._requests = requests
        self._name = name
        self._waiting: deque[Request] = deque()
        self._news = asyncio.Event()
        self._is_open = self._is_over = False

    async def __aenter__(self) -> Self:
        self._open()
        return self

    def _open(self) -> None:
        if self._is_over:
            raise UsageError(f"this serving of {self._name} has ended: call node.serve once more")
        self._requests.open(self._name, self)
        self._is_open = True

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Serve no more; requests that wait go to other servers."""
        if self._is_open:
            self._is_open, self._is_over = False, True
            self._requests.shut(self._name)
            for request in self._waiting:
                request._send(Answer(request.id, NOTHING, "the server has stopped", True))
            self._waiting.clear()
            self._news.set()

    def put(self, request: Request) -> bool:
        """Whether there was room for the request."""
        if len(self._waiting) >= MOST_WAITING:
            return False
        self._waiting.append(request)
        self._news.set()
        return True

    async def __aiter__(self) -> AsyncIterator[Request]:
        """Without `async with` the node serves as long as the loop runs."""
        is_entered = self._is_open
        if not is_entered:
            self._open()
        try:
            while self._is_open:
                while self._waiting:
                    yield self._waiting.popleft()
                self._news.clear()
                if self._is_open:
                    await self._news.wait()
        finally:
            if not is_entered:
                self.close()


class Requests:
    """What one node asks, and what it serves."""

    def __init__(self, context: Context, directory: TopicDirectory, metrics: Metrics) -> None:
        self._context = context
        self._directory = directory
        self._servers = Servers(context, directory)
        self._serving: dict[str, Serving] = {}
        self._asked: dict[bytes, Asked | AskedAll] = {}
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._drops = metrics.family(
            "requests_dropped", "reason", "Questions and answers that were of no use"
        )

    def close(self) -> None:
        for serving in list(self._serving.values()):
            serving.close()
        for asked in self._asked.values():
            asked.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(ClosedError("the node was closed before a reply came"))

    # -- asking --

    async def request(self, name: str, data: Any, timeout: float) -> Any:
        answer: Answer | None = await self._ask(
            partial(Asked, self._context, self._servers), name, data, timeout
        )
        if answer is None:
            raise _nobody(name, timeout)
        if answer.problem:
            raise RequestFailed(f"{name}: {answer.problem}")
        return answer.data

    async def request_all(self, name: str, data: Any, timeout: float) -> list[Reply]:
        replies: list[Reply] = await self._ask(
            partial(AskedAll, self._context, self._directory, self._servers), name, data, timeout
        )
        if not replies:
            raise _nobody(name, timeout)
        return replies

    async def _ask(self, make: _Asking, name: str, data: Any, timeout: float) -> Any:
        """What the question is done with."""
        check_seconds("timeout", timeout)
        pack_data(data)  # what cannot travel is told the caller, and not taken for silence
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        question = Question(name, self._context.random.randbytes(16), data)

        def done(outcome: Any) -> None:
            if not future.done():
                future.set_result(outcome)

        self._waiting[future] = None
        asked = make(question, timeout, lambda: name in self._serving, done)
        self._asked[question.id] = asked
        try:
            return await future
        finally:
            asked.cancel()
            del self._asked[question.id], self._waiting[future]

    def may_ask(self, peer: Holder, question: Question) -> bool:
        """Whether a peer has the right to ask this."""
        return peer.may(Action.PUBLISH, question.name)

    def may_answer(self, peer: Holder, answer: Answer) -> bool:
        """Whether a peer has the right to serve what it answers; a late answer is dropped anyway."""
        asked = self._asked.get(answer.id)
        return asked is None or peer.may(Action.SUBSCRIBE, asked.name)

    def receive_answer(self, sender: Contact, answer: Answer) -> None:
        asked = self._asked.get(answer.id)
        if asked is None:
            self._drops.add("late_answer")
        else:
            asked.receive(sender, answer)

    # -- serving --

    def open(self, name: str, serving: Serving) -> None:
        if name in self._serving:
            raise UsageError(f"this node serves {name} already")
        self._serving[name] = serving
        self._directory.announce(listed(name))

    def shut(self, name: str) -> None:
        del self._serving[name]
        self._directory.withdraw(listed(name))

    def receive_question(self, sender: Contact, question: Question) -> None:
        def answer(reply: Answer) -> None:
            self._context.send(sender, reply)

        serving = self._serving.get(question.name)
        request = Request(answer, sender, question)
        if serving is None or not serving.put(request):
            self._drops.add("not_served" if serving is None else "busy")
            answer(Answer(question.id, NOTHING, "the server cannot take the request", True))


def _nobody(name: str, timeout: float) -> NoReply:
    return NoReply(f"nobody that serves {name} has replied within {timeout:g} s")
