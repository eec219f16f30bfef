"""An archive's side of `camcast hand-over`: it does what an operator asks, and says how far it is.

Requests come as datagrams and are repeated. Each hand-over is done once, however often and by however many it
is asked for while it runs; how it ended is told to whoever asked, until another one of the same kind begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from overlay.contact import Address, Contact, PeerId
from overlay.errors import CamcastError
from overlay.runtime import Runtime
from pubsub.archive.errors import DurableUsageError
from pubsub.archive.hand_over_messages import DONE, REFUSED, WORKING, HandedOver, HandOver

MOST_KEPT = 100
"""Hand-overs whose end is remembered; the oldest are forgotten."""

LONGEST = 3_600.0
"""Seconds that one may take at most."""

Do = Callable[[str, Address, float], Awaitable[None]]
"""Hand a topic over to the archive at an address within so many seconds; a `CamcastError` says why not."""


@dataclass
class _Work:
    task: asyncio.Task[str]
    """It gives why it failed; an empty text when it is done."""
    asked_by: dict[tuple[PeerId, int], None] = field(default_factory=dict)
    """The nodes and the nonces of the wishes that it fulfils."""


class HandOverDesk:
    """One for each archive."""

    def __init__(self, runtime: Runtime, operators: frozenset[PeerId], do: Do) -> None:
        """`operators`: nodes that may ask; nodes of this machine always may. A member of the network can
        pose as another one."""
        self._runtime = runtime
        self._operators = operators
        self._do = do
        self._works: dict[tuple[str, Address], _Work] = {}

    async def close(self) -> None:
        tasks = [work.task for work in self._works.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def receive(self, sender: Contact, request: HandOver) -> None:
        if not sender.address.is_loopback and sender.id not in self._operators:
            why = f"node {sender.id} is no operator of this archive: it names its operators itself"
            self._answer(sender, request, REFUSED, why)
            return
        try:
            to = Address.parse(request.to)
        except CamcastError as error:
            self._answer(sender, request, REFUSED, str(error))
            return
        work = self._work(sender, request, to)
        if not work.task.done():
            self._answer(sender, request, WORKING, "")
        else:
            why = work.task.result()
            self._answer(sender, request, REFUSED if why else DONE, why)

    def _work(self, sender: Contact, request: HandOver, to: Address) -> _Work:
        """The work that the request is about: a new one, unless it is under way or was done for it."""
        key, wish = (request.topic, to), (sender.id, request.nonce)
        work = self._works.get(key)
        if work is None or (work.task.done() and wish not in work.asked_by):
            self._works.pop(key, None)
            work = self._works[key] = _Work(asyncio.create_task(self._run(request, to)))
            self._forget_oldest()
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
