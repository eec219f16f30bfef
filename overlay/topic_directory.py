"""The topic directory for protocol cores: answers come through callbacks (`membership.TopicDirectory`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from overlay.contact import Contact
from overlay.directory_service import DirectoryService
from overlay.errors import ClosedError
from overlay.membership.interface import Found

T = TypeVar("T")
_Tasks = dict[asyncio.Task[None], None]


class CallbackTopicDirectory:
    """A `TopicDirectory` on a node's directory service; `close` ends all that it runs.

    Every question is answered exactly once, by an empty answer where the DHT is closed first; after
    `close` of this object nothing is answered any more.
    """

    def __init__(self, service: DirectoryService) -> None:
        self._service = service
        self._changes: _Tasks = {}
        self._questions: _Tasks = {}

    def announce(self, topic: str) -> None:
        _start(self._changes, self._service.announce, topic)

    def withdraw(self, topic: str) -> None:
        _start(self._changes, self._service.withdraw, topic)

    def contacts(self, topic: str, count: int, found: Found) -> None:
        contacts = partial(self._service.contacts, topic, count)
        _start(self._questions, _answer, contacts, _as_tuple(found), [])

    def sample(self, topic: str, count: int, found: Found) -> None:
        sample = partial(self._service.sample, topic, count)
        _start(self._questions, _answer, sample, _as_tuple(found), [])

    def report(self, topic: str, member: Contact) -> None:
        _start(self._questions, self._service.report, topic, member)

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        _start(self._questions, _answer, partial(self._float_size, topic), found, 0.0)

    async def close(self, within: float) -> None:
        """Give up questions at once, announcements and withdrawals after so many seconds."""
        for question in list(self._questions):
            question.cancel()
        if self._changes:
            await asyncio.wait(list(self._changes), timeout=within)
        left = [*self._changes, *self._questions]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _float_size(self, topic: str) -> float:
        return float(await self._service.size(topic))


def _start(tasks: _Tasks, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    task = asyncio.get_running_loop().create_task(_until_closed(work, *arguments))
    tasks[task] = None
    task.add_done_callback(lambda done: tasks.pop(done, None))


async def _answer(
    question: Callable[[], Awaitable[T]], found: Callable[[T], None], nothing: T
) -> None:
    try:
        answer = await question()
    except ClosedError:
        answer = nothing
    found(answer)


async def _until_closed(work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """What the DHT's closing interrupts has nobody left to answer to."""
    with contextlib.suppress(ClosedError):
        await work(*arguments)


def _as_tuple(found: Found) -> Callable[[list[Contact]], None]:
    return lambda contacts: found(tuple(contacts))
