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
from collections.abc import Sequence
from typing import Self

from pubsub.archive.store import (
    Change,
    GroupCommit,
    Retention,
    Scan,
    Store,
    StoredEvent,
    StoreError,
)
from pubsub.distributors.messages import ServiceBlock
from pubsub.distributors.protocol.exchange import Found
from pubsub.reliable.numbers import Span

TOPIC = "/services/"
"""Before a service's name, what the store calls it."""

RETENTION_SECONDS = 5.0
"""How often what may be forgotten is looked for."""

_log = logging.getLogger(__name__)


class ArchiveHistory:
    """Records and finds messages; `blocking` stores are kept off the event loop."""

    def __init__(self, store: Store, retention: Retention | None = None) -> None:
        """The store is this object's to close; one distributor has one."""
        self._store = store
        self._retention = retention or Retention()
        self._commit = GroupCommit(store, on_failure=self._fail)
        self._sequences: dict[str, int] = {}
        self._upkeep: asyncio.Task[None] | None = None
        self._asking: dict[asyncio.Task[None], None] = {}
        self._failed = False

    async def __aenter__(self) -> Self:
        self._upkeep = asyncio.get_running_loop().create_task(self._forget_old())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._asking, *([self._upkeep] if self._upkeep is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._commit.close()
        self._store.close()

    def record(self, block: ServiceBlock) -> None:
        """Store a block, soon; what is stored already is left as it is."""
        topic, source, now = TOPIC + block.service, block.source, time.time()
        sequence = self._sequences.get(topic)
        if sequence is None:
            sequence = self._store.last_sequence(topic)
        changes: list[Change] = []
        for number, payload in enumerate(block.payloads, block.first):
            sequence += 1
            event_id = source + number.to_bytes(8, "big")
            event = StoredEvent(topic, sequence, event_id, source, number, now, payload)
            changes.append(event)
        self._sequences[topic] = sequence
        self._submit(changes)

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        task = asyncio.get_running_loop().create_task(
            self._find(service, source, Span(first, last), found)
        )
        self._asking[task] = None
        task.add_done_callback(self._asking.pop)

    async def _find(self, service: str, source: bytes, span: Span, found: Found) -> None:
        try:
            if self._store.blocking:
                run = asyncio.get_running_loop().run_in_executor
                events = await run(None, self._store.by_catenation, TOPIC + service, source, span)
            else:
                events = self._store.by_catenation(TOPIC + service, source, span)
        except StoreError as error:
            _log.error("the history of %s cannot be read: %s", service, error)
            events = []
        found(_consecutive(span.first, events))

    def _submit(self, changes: Sequence[Change]) -> None:
        if not self._failed:
            self._commit(changes)

    def _fail(self, error: BaseException) -> None:
        if not self._failed:
            self._failed = True
            _log.error("the history records nothing any more: %s", error)

    async def _forget_old(self) -> None:
        while not self._retention.is_unlimited:
            await asyncio.sleep(RETENTION_SECONDS)
            for topic in list(self._sequences):
                drop = Scan().plan(self._store, topic, self._retention, time.time()).drop
                if drop is not None:
                    self._submit([drop])


def _consecutive(first: int, events: list[StoredEvent]) -> list[bytes]:
    """The messages from `first` on, up to the first that is missing."""
    result: list[bytes] = []
    for event in events:
        if event.catenation == first + len(result):
            result.append(event.body)
    return result
