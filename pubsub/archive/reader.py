"""Read an archive without a subscription: its streams, and their events by number.

    reader = ArchiveReader(runtime, "/soccer", archives)
    marks = await reader.streams()
    async for page in reader.pages(stream, first=1, last=marks[stream]):
        ...

The archive keeps no account of the reader, who does so alone: a stream's name and a number say what has been
read, at every replica. So any page can be read again, here or in another process, from any replica that has
the events. The questions are those of `pubsub.archive.protocol.reading`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

from overlay.contact import Contact
from overlay.entropy import entropy
from overlay.runtime import Runtime
from pubsub.archive.errors import ArchiveError
from pubsub.archive.protocol.reading import AskEvents, AskStreams, EventPage, Streams

PATIENCE = 4.0
"""Seconds after which another replica is asked."""

WITHIN = 30.0
"""Seconds after which nobody is asked any more."""

STRIDE = 4096
"""Numbers of a stream that are asked for at once."""

AHEAD = 3
"""Questions of one stream that are under way at a time."""

BEHIND_SECONDS = 0.1
"""How long a replica is left alone that has not got the events yet that another one told of."""


_ALWAYS = 1e15
"""Seconds since 1970; no event is archived later. Infinity does not travel."""


class ArchiveReader:
    """Asks the replicas of one managed topic. Close it to use the runtime for another one."""

    def __init__(
        self,
        runtime: Runtime,
        topic: str,
        archives: Sequence[Contact],
        *,
        name: str = "reader",
        within: float = WITHIN,
    ) -> None:
        """`topic`: what the archives manage; the first of them is asked as long as it answers. `name`: for
        the archives' policy of replay. `ArchiveError` comes after `within` seconds without an answer."""
        self.runtime = runtime
        self.topic = topic
        self._archives = list(archives)
        self._name = name
        self._within = within
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.floor = 0
        """Streams that began before this time are forgotten, as the last answer said."""
        runtime.on(Streams, self._receive)
        runtime.on(EventPage, self._receive)

    def close(self) -> None:
        for kind in (Streams, EventPage):
            self.runtime.off(kind)

    async def streams(self) -> dict[bytes, int]:
        """The streams that are there, each with the number of its last event."""
        marks: dict[bytes, int] = {}
        after, more = b"", True
        while more:
            page: Streams = await self._ask(
                lambda nonce, at=after: AskStreams(self.topic, nonce, at)
            )
            marks.update(page.marks)
            self.floor = max(self.floor, page.floor)
            more = page.more and bool(page.marks)
            after = page.marks[-1][0] if page.marks else b""
        return marks

    async def pages(
        self,
        stream: bytes,
        first: int,
        last: int,
        *,
        below: str | None = None,
        since: float = 0.0,
        until: float = math.inf,
    ) -> AsyncIterator[tuple[EventPage, int]]:
        """The stream's events from one number to another, in pages, each with how many numbers of it have no
        event: retention has removed them. `below`: only events of this subtopic; `since` and `until`: only
        those that were archived from one time on and before the other."""
        most = min(until, _ALWAYS)

        def question(nonce: int, first: int, last: int) -> AskEvents:
            under = below or self.topic
            return AskEvents(self.topic, nonce, self._name, stream, first, last, under, since, most)

        async def read(first: int, last: int, once: bool = False) -> list[tuple[EventPage, int]]:
            found: list[tuple[EventPage, int]] = []
            while first <= last and not (once and found):
                page = await self._page(question, first, last)
                lacking = page.read_to - first + 1 - page.seen
                found.append((page, 0 if page.forked else lacking))
                first = page.read_to + 1
            return found

        # A stream may begin far above the number that is asked for first: one question finds out.
        for page, lacking in await read(first, last, once=True):
            yield page, lacking
            first = page.read_to + 1
        ahead: deque[asyncio.Task[list[tuple[EventPage, int]]]] = deque()
        try:
            while first <= last or ahead:
                while first <= last and len(ahead) < AHEAD:
                    end = min(first + STRIDE - 1, last)
                    ahead.append(asyncio.ensure_future(read(first, end)))
                    first = end + 1
                for page, lacking in await ahead.popleft():
                    yield page, lacking
        finally:
            for task in ahead:
                task.cancel()

    async def first(self, stream: bytes, first: int, last: int) -> int:
        """The lowest of these numbers of the stream whose event is there; the one behind them if none is."""

        def question(nonce: int, first: int, last: int) -> AskEvents:
            return AskEvents(
                self.topic, nonce, self._name, stream, first, last, self.topic, _ALWAYS, _ALWAYS
            )

        page = await self._page(question, first, last)
        return page.first or last + 1

    async def _page(self, question: Any, first: int, last: int) -> EventPage:
        """A page with something, from a replica that has it."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._within
        while True:
            page: EventPage = await self._ask(lambda nonce: question(nonce, first, last))
            if page.refused:
                raise ArchiveError(
                    f"the archive of {self.topic} refuses to be read: {page.refused}"
                )
            if page.read_to >= first:
                return page
            if loop.time() > end:
                raise ArchiveError(
                    f"no archive of {self.topic} that answers has event {first} of stream "
                    f"{question(0, first, last).stream.hex()}: is the replica that had it gone?"
                )
            self._archives.append(self._archives.pop(0))
            await asyncio.sleep(BEHIND_SECONDS)

    async def _ask(self, make: Any) -> Any:
        """The answer of the first replica that gives one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._within
        while (left := end - loop.time()) > 0:
            nonce = entropy().getrandbits(62)
            answer = self._waiting[nonce] = loop.create_future()
            archive = self._archives[0]
            self.runtime.send(archive, make(nonce))
            try:
                async with asyncio.timeout(min(PATIENCE, left)):
                    return await answer
            except TimeoutError:
                if self._archives[0] == archive:
                    self._archives.append(self._archives.pop(0))
            finally:
                self._waiting.pop(nonce, None)
        raise ArchiveError(f"no archive of {self.topic} has answered within {self._within:g} s")

    def _receive(self, sender: Contact, answer: Streams | EventPage) -> None:
        waiting = self._waiting.get(answer.nonce)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
