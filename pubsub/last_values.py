"""The last value of each topic of a subscription: asked of the community's members and of its archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from overlay.contact import Contact
from pubsub.archive.protocol.reading import AskLast
from pubsub.camcast.latest import MOST_ASKED, AskLatest, Kept
from pubsub.camcast.process import Process
from pubsub.data import MALFORMED
from pubsub.event import Batch
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.node import Node

ARCHIVE_SECONDS = 2.0
"""How long an archive is looked for and asked; a directory may lose a question."""

NAME = "last-values"
"""Under which archives are asked, for their policy of replay."""


async def last_values(node: Node, process: Process, pattern: Pattern) -> list[Batch]:
    """One event for each topic of which anything is known, the oldest first."""
    topic = pattern.topic.name
    community = process.communities[topic]
    members = community.table
    members = tuple(community.random.sample(members, min(MOST_ASKED, len(members))))
    above = [one for table in community.super_tables.linked() for one in table.contacts]
    found = await asyncio.gather(
        _ask(process, topic, [*members, *above][:MOST_ASKED]), _ask_archive(node, process, pattern)
    )
    best: dict[str, Kept] = {}
    for kept in (*found[0], *found[1]):
        known = best.get(kept.block.topic)
        if known is None or kept.replaces(known):
            best[kept.block.topic] = kept
    batches: list[Batch] = []
    for kept in sorted(best.values(), key=lambda one: one.at):
        if topic in process.communities:  # the next newcomer may ask this process
            community.latest.add(kept.block, kept.at)
        batch = kept.block.batch(1, node.config.signatures)[0]
        batch = batch.part(len(batch) - 1, len(batch))
        if batch.data[0] is not MALFORMED:
            batches.append(batch)
    return batches


async def _ask(
    process: Process,
    topic: str,
    whom: Sequence[Contact],
    question: Callable[[str, int, tuple[bytes, ...]], object] = AskLatest,
) -> list[Kept]:
    answer: asyncio.Future[list[Kept]] = asyncio.get_running_loop().create_future()

    def done(found: list[Kept]) -> None:
        if not answer.done():
            answer.set_result(found)

    search = process.last_values.ask(topic, whom, done, question)
    try:
        return await answer
    finally:
        search.cancel()


async def _ask_archive(node: Node, process: Process, pattern: Pattern) -> list[Kept]:
    """What an archive of the topic, or of a super-topic, has; nothing where none answers in time."""
    try:
        async with asyncio.timeout(ARCHIVE_SECONDS):
            managed, archives = await node.archives_of(pattern.topic)
            if not archives:
                return []
            return await _ask(
                process,
                pattern.topic.name,
                archives,
                lambda below, nonce, known: AskLast(managed, nonce, NAME, below),
            )
    except TimeoutError:
        return []
