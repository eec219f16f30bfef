"""What the collections of one node send in a strong topic beside additions, each message in its own task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from overlay.contact import PeerId
from overlay.errors import ClosedError
from overlay.wire import encode
from pubsub.collections.messages import Announcement, Direct, Estate, Gift, Taken
from pubsub.collections.wishes import parse_wishes
from pubsub.reliable.tasks import Tasks
from pubsub.strong_topic import Participant, StrongTopic

LINGER_SECONDS = 1.0
"""How long offers and answers have to arrive when the topic is left."""

TELL_TAKEN_SECONDS = 0.05
"""For which gifts that are taken are collected before the others are told."""

GIFTS_A_MESSAGE = 1000

TRY_AGAIN_SECONDS = 0.5
"""After which it is told that a message did not reach a participant, so that it may be sent again."""


class Outbox:
    def __init__(
        self,
        strong: Callable[[], StrongTopic],
        undelivered: Callable[[PeerId, Direct], None],
        supervisor: Tasks,
    ) -> None:
        """`strong` gives the topic, or raises `ClosedError`; `undelivered` is told what may not have
        arrived. `supervisor` runs a task for each message."""
        self._supervisor = supervisor
        self._strong = strong
        self._undelivered = undelivered
        self._tasks: dict[asyncio.Task[None], Direct | Gift] = {}
        """Messages on their way, and the first of those that are told to be taken."""
        self._taken: list[Gift] = []
        """Those that the others are still to be told of."""

    def send(self, to: PeerId, message: Direct) -> None:
        self._start(self._try_to_send(to, message), message)

    def tell_taken(self, gift: Gift) -> None:
        """Broadcast that a gift is taken, to those who may have a copy."""
        self._taken.append(gift)
        if len(self._taken) == 1:
            self._start(self._tell_all_taken(), gift)

    async def linger(self) -> None:
        """Give offers, answers and what is taken a moment to arrive."""
        urgent = [
            task
            for task, about in self._tasks.items()
            if not isinstance(about, Announcement | Estate)
        ]
        if urgent:
            await asyncio.wait(urgent, timeout=LINGER_SECONDS)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None], about: Direct | Gift) -> None:
        task = self._supervisor.start("message of a collection", work, vital=False)
        self._tasks[task] = about
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _try_to_send(self, to: PeerId, message: Direct) -> None:
        with contextlib.suppress(ClosedError):
            if not await self._strong().send(to, encode(message)):
                await asyncio.sleep(TRY_AGAIN_SECONDS)
                self._undelivered(to, message)

    async def _tell_all_taken(self) -> None:
        """Several gifts share a message."""
        await asyncio.sleep(TELL_TAKEN_SECONDS)
        gifts, self._taken = self._taken, []
        publishers = {gift[0] for gift in gifts}

        def concerned(participant: Participant) -> bool:
            # One that does not ask any more must hear it too, or it would hand its copies on one day.
            return participant.id in publishers or parse_wishes(participant.filter).shared

        with contextlib.suppress(ClosedError):
            for begin in range(0, len(gifts), GIFTS_A_MESSAGE):
                message = Taken(tuple(gifts[begin : begin + GIFTS_A_MESSAGE]))
                await self._strong().broadcast(encode(message), to=concerned)
