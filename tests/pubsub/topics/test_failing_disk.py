"""What is acknowledged or published is on the disk before, though the disk fails for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

from overlay.virtual import Network
from overlay.virtual.stage import numbered_contact
from pubsub.topics.log import Restored, SqliteTopicLog
from pubsub.topics.messages import Item
from tests.pubsub.topics import properties
from tests.pubsub.topics.strong_nodes import StrongNodes, log_of
from tests.pubsub.topics.test_stable_phases import joined, payloads_at
from tests.pubsub.topics.test_strong_topic import play


def test_nothing_is_acknowledged_or_delivered_before_the_disk_has_it() -> None:
    troupe = joined(1, 3, logged=True)
    troupe.logs[1].is_full = True
    troupe.broadcast(0, b"first")
    troupe.run(5.0)
    troupe.broadcast(0, b"second")
    troupe.run(5.0)
    assert payloads_at(troupe, 1) == []
    assert payloads_at(troupe, 2) == [b"first", b"second"]
    assert troupe.actors[0].core.held == 2, "one has not acknowledged them"
    troupe.logs[1].is_full = False
    troupe.run(10.0)
    assert payloads_at(troupe, 1) == [b"first", b"second"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_one_that_crashes_while_its_disk_is_full_gets_everything_afterwards() -> None:
    troupe = joined(2, 3, logged=True)
    troupe.logs[1].is_full = True
    for number in range(5):
        troupe.broadcast(0, b"%d" % number)
        troupe.run(1.0)
    troupe.partition([1])  # what is stated when it is back must be stated then
    troupe.run(5.0)
    troupe.heal()
    troupe.run(5.0)
    troupe.crash(1)
    troupe.logs[1].is_full = False
    troupe.start(1, logged=True)
    troupe.run(15.0)
    assert sorted(item.payload or b"" for item in troupe.actors[1].delivered) == [
        b"%d" % number for number in range(5)
    ]
    assert properties.no_gaps(troupe) == []
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_a_publisher_sends_nothing_that_its_disk_does_not_have() -> None:
    troupe = joined(3, 3, logged=True)
    troupe.logs[0].is_full = True
    troupe.broadcast(0, b"never sent")
    core = troupe.actors[0].core
    assert not core.is_sent(1)
    assert not core.is_settled(1)
    troupe.suspect_wrongly(0, 1)  # its channel opens again, and is looked at for what lacks
    troupe.run(8.0)
    assert [payloads_at(troupe, number) for number in range(3)] == [[], [], []]
    troupe.crash(0)
    troupe.logs[0].is_full = False
    troupe.start(0, logged=True)
    troupe.run(8.0)
    troupe.broadcast(0, b"under the same number")
    troupe.run(8.0)
    assert [payloads_at(troupe, number) for number in range(3)] == [[b"under the same number"]] * 3


def test_a_publisher_sends_what_waited_when_its_disk_works_again() -> None:
    troupe = joined(4, 3, logged=True)
    troupe.logs[0].is_full = True
    for number in range(3):
        troupe.broadcast(0, b"%d" % number)
    troupe.run(3.0)
    troupe.logs[0].is_full = False
    troupe.run(8.0)
    for number in range(3):
        delivered = [item.payload or b"" for item in troupe.actors[number].delivered]
        assert sorted(delivered) == [b"0", b"1", b"2"]
    assert [actor.core.held for actor in troupe.alive()] == [0, 0, 0]


def test_a_log_gives_back_what_it_was_told(tmp_path: Path) -> None:
    publisher = numbered_contact(7).id
    items = [Item(publisher, b"the run1", number, False, (), bytes(3000)) for number in range(1, 9)]
    received = (items[0].source, 8, ())

    async def main() -> Restored:
        log = SqliteTopicLog(tmp_path / "log.sqlite", "/topic", publisher)
        log.began(5, 6)
        for item in items:
            log.took(item, unfinished=True)
        log.sync([received], lambda: None)
        await log.close()
        again = SqliteTopicLog(tmp_path / "log.sqlite", "/topic", publisher)
        restored = again.restore()
        await again.close()
        return restored

    restored = asyncio.run(main())
    assert restored.unfinished == tuple(items)
    assert restored.received == (received,)


def test_broadcast_returns_when_the_message_is_on_the_disk(tmp_path: Path) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one = await nodes.start(log=log_of(tmp_path, 0))
        other = await nodes.start()
        await asyncio.sleep(3)
        file = one.strong._log.journal._file  # type: ignore[attr-defined]
        pages = file.execute("PRAGMA page_count").fetchone()[0]
        file.execute(f"PRAGMA max_page_count = {pages}")
        publishing = asyncio.ensure_future(one.strong.broadcast(bytes(100_000)))
        await asyncio.sleep(10)
        assert not publishing.done()
        assert one.delivered == other.delivered == []
        file.execute("PRAGMA max_page_count = 100000")
        await one.strong.receipt(await publishing).wait("safe")
        assert one.payloads == other.payloads == [bytes(100_000)]

    play(script, loss=0.0)
