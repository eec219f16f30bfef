"""A history of services in a store of `pubsub.archive`: what distributors let go of is still found there.

    store = open_store("sqlite:///services.db")
    async with ArchiveHistory(store, retention=Retention(max_bytes=10**9)) as history:
        async with Distributor(["ticker"], history=history) as distributor: ...

Each message that enters a distributor's log is stored. A subscriber without gaps that comes back after the
distributors' memory or patience has ended gets the rest from here, as long as the retention keeps it.
Publishers do not wait for the disk: what was not synced when the process crashed is missing here, and the
other distributors of the group have their own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self, TypeVar

from pubsub.archive.errors import ArchiveError
from pubsub.archive.store import (
    Change,
    Drop,
    GroupCommit,
    Retention,
    Scan,
    Store,
    StoredEvent,
    StoreError,
)
from pubsub.archive.store.retention import Plan
from pubsub.distributors.messages import ServiceBlock
from pubsub.distributors.protocol.exchange import Found
from pubsub.reliable.numbers import Span
from pubsub.reliable.tasks import Tasks

T = TypeVar("T")

TOPIC = "/services/"
"""Before a service's name, what the store calls it."""

RETENTION_SECONDS = 5.0
"""How often what may be forgotten is looked for."""

_log = logging.getLogger(__name__)


class ArchiveHistory:
    """Records and finds messages; `blocking` stores are kept off the event loop.

    When the store fails, nothing is recorded any more: `failure` says why, the distributor's status and its
    metric `distributor_history_failed` show it, and `failed()` raises."""

    def __init__(self, store: Store, retention: Retention | None = None) -> None:
        """The store is this object's to close; one distributor has one."""
        self._store = store
        self._retention = retention or Retention()
        self._commit = GroupCommit(store, on_failure=self._fail)
        self._tasks = Tasks("history")
        self._sequences: dict[str, int] = {}
        self.failure = ""
        """Why nothing is recorded any more; empty while all is well."""
        self._has_failed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._sequences = await self._ask(
            lambda store: {topic: store.last_sequence(topic) for topic in store.topics()}
        )
        if not self._retention.is_unlimited:
            self._tasks.repeat("retention", RETENTION_SECONDS, self._forget_old)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        await self._commit.close()
        await self._ask(lambda store: store.close())

    async def failed(self) -> None:
        """Wait until the store has failed, if that ever happens, and raise `ArchiveError`."""
        await self._has_failed.wait()
        raise ArchiveError(f"the history has stopped, since its store failed: {self.failure}")

    def record(self, block: ServiceBlock) -> None:
        """Store a block, soon; what is stored already is left as it is."""
        topic, source, now = TOPIC + block.service, block.source, time.time()
        sequence = self._sequences.get(topic, 0)
        changes: list[Change] = []
        for number, payload in enumerate(block.payloads, block.first):
            sequence += 1
            event_id = source + number.to_bytes(8, "big")
            event = StoredEvent(topic, sequence, event_id, source, number, now, payload)
            changes.append(event)
        self._sequences[topic] = sequence
        self._submit(changes)

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        self._tasks.start(
            "reading", self._find(service, source, Span(first, last), found), vital=False
        )

    async def _find(self, service: str, source: bytes, span: Span, found: Found) -> None:
        events: list[StoredEvent] = []
        try:
            events = await self._ask(
                lambda store: store.by_catenation(TOPIC + service, source, span)
            )
        except StoreError as error:
            self._fail(error)
        found(_consecutive(span.first, events))

    async def _ask(self, query: Callable[[Store], T]) -> T:
        if not self._store.blocking:
            return query(self._store)
        return await asyncio.get_running_loop().run_in_executor(None, query, self._store)

    def _submit(self, changes: Sequence[Change]) -> None:
        if not self.failure:
            self._commit(changes)

    def _fail(self, error: BaseException) -> None:
        if not self.failure:
            self.failure = str(error)
            self._has_failed.set()
            _log.error("the history records nothing any more: %s", error)

    async def _forget_old(self) -> None:
        for topic in list(self._sequences):
            try:
                plan = await self._ask(partial(self._plan, topic))
            except StoreError as error:
                self._fail(error)
                return
            if plan.gone:
                self._submit([Drop(topic, plan.spans)])

    def _plan(self, topic: str, store: Store) -> Plan:
        return Scan().plan(store, topic, self._retention, time.time())


def _consecutive(first: int, events: list[StoredEvent]) -> list[bytes]:
    """The messages from `first` on, up to the first that is missing."""
    result: list[bytes] = []
    for event in events:
        if event.catenation == first + len(result):
            result.append(event.body)
    return result
