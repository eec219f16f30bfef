"""Strong topics of whole nodes: channels, failure detection, logs on disk, the directory, under faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from overlay.errors import ClosedError, UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub.topics import Delivery, Gap, StableView, TopicConfig, TopicView
from pubsub.topics.config import BroadcastConfig
from tests.pubsub.topics.strong_nodes import StrongNodes, log_of

Script = Callable[[Network, StrongNodes], Awaitable[None]]


def play(
    script: Script,
    seed: int = 1,
    *,
    loss: float = 0.02,
    duplicate: float = 0.01,
    directory: bool = False,
) -> None:
    network = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=loss, duplicate=duplicate)

    async def main() -> None:
        nodes = StrongNodes(network, directory=directory)
        await script(network, nodes)
        for node in nodes.nodes:
            await node.topics.close()

    network.run(main())
    assert network.unhandled == []


def test_everybody_gets_every_message_and_nothing_stays_in_the_buffers() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start() for _ in range(5)]
        await asyncio.sleep(3)
        for number in range(50):
            await group[number % 5].strong.broadcast(b"%d" % number)
        await asyncio.gather(*(node.strong.receipt(10).wait("safe") for node in group))
        for node in group:
            assert sorted(node.payloads) == sorted(b"%d" % number for number in range(50))
        await asyncio.sleep(3)
        assert [node.strong.core.held for node in group] == [0] * 5
        assert sum(node.strong.core.counts["duplicates"] for node in group) <= 10

    play(script)


def test_participants_find_each_other_in_the_directory_and_reach_one_stable_view() -> None:
    stable: list[StableView] = []
    views: list[TopicView] = []

    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [
            await nodes.start(on_stable=stable.append, on_view_changed=views.append)
            for _ in range(4)
        ]
        await asyncio.sleep(15)
        assert {node.strong.stable_view for node in group} == {group[0].strong.stable_view}
        view = group[0].strong.stable_view
        assert view is not None
        assert view.members == tuple(sorted(node.strong.me for node in group))
        assert group[0].strong.view.members == view.members
        assert [person.id for person in group[0].strong.participants] == list(view.members)
        assert stable[-4:] == [view] * 4
        assert views

    play(script, directory=True, loss=0.0)


def test_two_that_began_alone_at_the_same_time_meet() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        helper = await nodes.start()  # the others need somebody to join the network through
        await helper.strong.leave()
        await asyncio.sleep(2)
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        assert one.strong.view.members == (one.strong.me,)
        assert other.strong.view.members == (other.strong.me,)
        await asyncio.sleep(30)
        await one.strong.broadcast(b"hello")
        await one.strong.receipt(1).wait("safe")
        assert other.payloads == [b"hello"]

    play(script, directory=True, loss=0.0)


def test_one_that_was_cut_off_gets_a_thousand_messages_of_a_kibibyte() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start() for _ in range(3)]
        await asyncio.sleep(3)
        network.partition([group[2].host], [node.host for node in group[:2]])
        for number in range(1000):
            await group[number % 2].strong.broadcast(bytes(1024))
        await asyncio.sleep(10)
        assert [len(node.delivered) for node in group] == [1000, 1000, 0]
        network.heal()
        await asyncio.gather(*(node.strong.receipt(500).wait("safe") for node in group[:2]))
        assert [len(node.delivered) for node in group] == [1000] * 3
        await asyncio.sleep(2)
        assert [node.strong.core.held for node in group] == [0] * 3

    play(script, loss=0.0)


def test_one_that_crashes_comes_back_with_its_log_and_gets_each_message_once(
    tmp_path: Path,
) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start(log=log_of(tmp_path, number)) for number in range(3)]
        await asyncio.sleep(3)
        for number in range(20):
            await group[0].strong.broadcast(b"%d" % number)
        await group[0].strong.receipt(20).wait("safe")
        await asyncio.sleep(1)
        run = group[2].strong.run
        network.crash(group[2].host)
        for number in range(20, 40):
            await group[0].strong.broadcast(b"%d" % number)
        await asyncio.sleep(10)
        again = await nodes.restart(group[2], log=log_of(tmp_path, 2))
        await group[0].strong.receipt(40).wait("safe")
        assert again.strong.run == run
        assert sorted(group[2].payloads + again.payloads) == sorted(
            b"%d" % number for number in range(40)
        )
        assert await again.strong.broadcast(b"on") == 1
        await again.strong.receipt(1).wait("safe")
        assert group[1].payloads[-1] == b"on"

    play(script)


def test_the_log_of_another_topic_or_node_is_refused(tmp_path: Path) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one = await nodes.start(log=log_of(tmp_path, 0))
        other = await nodes.start()
        with pytest.raises(UsageError, match="is the log of the strong topic /EPFL/DSC"):
            await one.topics.join("/elsewhere", print, log=log_of(tmp_path, 0))
        await other.strong.leave()
        with pytest.raises(UsageError, match="is the log of the strong topic /EPFL/DSC of node"):
            await other.topics.join("/EPFL/DSC", print, log=log_of(tmp_path, 0))
        await one.strong.leave()
        await one.topics.join("/EPFL/DSC", print, log=log_of(tmp_path, 0))

    play(script, loss=0.0)


def test_what_a_publisher_with_a_log_broadcast_before_all_crashed_reaches_all(
    tmp_path: Path,
) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start(log=log_of(tmp_path, number)) for number in range(3)]
        await asyncio.sleep(3)
        network.partition([group[1].host], [group[0].host, group[2].host])
        await asyncio.sleep(6)
        await group[0].strong.broadcast(b"last words")
        await asyncio.sleep(1)
        for node in group:
            network.crash(node.host)
        network.heal()
        await asyncio.sleep(5)
        again = [await nodes.restart(node, log=log_of(tmp_path, node.number)) for node in group]
        await asyncio.sleep(20)
        assert again[1].payloads == [b"last words"]
        assert await again[0].strong.broadcast(b"more") == 2
        await again[0].strong.receipt(2).wait("safe")

    play(script, loss=0.0)


def test_a_message_counts_as_delivered_when_the_handler_has_awaited_its_end(tmp_path: Path) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        finished: list[bytes] = []
        begun: list[bytes] = []

        async def slowly(delivery: Delivery) -> None:
            begun.append(delivery.payload)
            await asyncio.sleep(3)
            finished.append(delivery.payload)

        publisher = await nodes.start()
        slow = await nodes.start(on_deliver=slowly)
        logged = await nodes.start(on_deliver=slowly, log=log_of(tmp_path, 2))
        await asyncio.sleep(3)
        for number in range(3):
            await publisher.strong.broadcast(b"%d" % number)
        await asyncio.sleep(4)
        assert publisher.strong.core.held == 3 - len(finished) // 2
        network.crash(slow.host)
        network.crash(logged.host)
        begun.clear()
        await nodes.restart(slow, on_deliver=slowly)
        await nodes.restart(logged, on_deliver=slowly, log=log_of(tmp_path, 2))
        await publisher.strong.receipt(3).wait("safe")
        await asyncio.sleep(10)
        assert sorted(begun) == [b"1", b"1", b"2", b"2"], "what was not finished comes again"

    play(script, loss=0.0)


def test_a_publisher_waits_for_one_that_is_away_but_not_for_ever() -> None:
    gaps: list[Gap] = []

    async def script(network: Network, nodes: StrongNodes) -> None:
        config = TopicConfig(BroadcastConfig(window_messages=10, stay_away_when_full=20.0))
        publisher = await nodes.start(config=config)
        away = await nodes.start(config=config, on_gap=gaps.append)
        await asyncio.sleep(3)
        network.partition([away.host], [publisher.host])
        await asyncio.sleep(8)
        began = network.now
        for _ in range(11):
            await publisher.strong.broadcast(b"x")
        assert 15 < network.now - began < 60
        network.heal()
        await asyncio.sleep(60)
        await publisher.strong.broadcast(b"again")
        await publisher.strong.receipt(12).wait("safe")
        assert away.payloads[-1] == b"again"
        assert sum(gap.last - gap.first + 1 for gap in gaps) + len(away.payloads) == 12
        assert {gap.publisher for gap in gaps} <= {publisher.strong.me}

    play(script, directory=True, loss=0.0)


def test_semantics_and_audiences() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start(filter=f"price < {number}") for number in range(4)]
        await asyncio.sleep(3)
        one = group[0].strong
        await one.broadcast(b"weak", semantics="best-effort")
        await one.broadcast(b"stubborn", semantics="stubborn")
        await one.broadcast(b"odd", to=lambda person: person.filter in ("price < 1", "price < 3"))
        await one.broadcast(b"third", to=[group[2].strong.me])
        await asyncio.sleep(3)
        assert sorted(group[0].payloads) == [b"stubborn", b"weak"]
        assert sorted(group[1].payloads) == [b"odd", b"stubborn", b"weak"]
        assert sorted(group[2].payloads) == [b"stubborn", b"third", b"weak"]
        directed = next(d for d in group[2].delivered if d.payload == b"third")
        assert directed.only == (group[2].strong.me,)
        await group[3].strong.change_filter("price < 2")
        await asyncio.sleep(2)
        assert [person.filter for person in one.participants].count("price < 2") == 2

    play(script, loss=0.0)


def test_stubborn_messages_wait_for_the_end_of_a_partition_and_best_effort_ones_do_not() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        await asyncio.sleep(3)
        network.partition([one.host], [other.host])
        await asyncio.sleep(6)
        for number in range(20):
            await one.strong.broadcast(b"%d" % number, semantics="stubborn")
            await one.strong.broadcast(b"lost", semantics="best-effort")
        network.heal()
        await asyncio.sleep(15)
        assert sorted(other.payloads) == sorted(b"%d" % number for number in range(20))

    play(script, loss=0.0)


def test_one_can_send_to_one_alone_and_learns_whether_it_arrived() -> None:
    got: list[tuple[bytes, bytes]] = []

    async def script(network: Network, nodes: StrongNodes) -> None:
        one = await nodes.start()
        other = await nodes.start(on_direct=lambda sender, payload: got.append((sender, payload)))
        await asyncio.sleep(3)
        assert await one.strong.send(other.strong.me, b"psst")
        assert got == [(one.strong.me, b"psst")]
        await other.strong.leave()
        await asyncio.sleep(1)
        assert not await one.strong.send(other.strong.me, b"psst")
        assert len(one.strong.participants) == 1

    play(script)


def test_leaving_hands_on_what_was_just_published() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        group = [await nodes.start() for _ in range(3)]
        await asyncio.sleep(3)
        await group[0].strong.broadcast(b"and goodbye")
        await group[0].strong.leave()
        await asyncio.sleep(5)
        assert group[1].payloads == group[2].payloads == [b"and goodbye"]
        assert len(group[1].strong.participants) == 2
        with pytest.raises(ClosedError, match="has left"):
            await group[0].strong.broadcast(b"too late")

    play(script)


def test_what_cannot_work_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one = await nodes.start()
        strong, topics = one.strong, one.topics
        with pytest.raises(UsageError, match="takes part in /EPFL/DSC already"):
            await topics.join("/EPFL/DSC", print)
        with pytest.raises(UsageError, match="order is"):
            await topics.join("/a", print, order="total")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="4096 is the most"):
            await topics.join("/a", print, filter="x" * 5000)
        with pytest.raises(UsageError, match="begin with a slash"):
            await topics.join("a", print)
        with pytest.raises(UsageError, match="cannot be used as a log"):
            await topics.join("/a", print, log=tmp_path)
        with pytest.raises(UsageError, match="a payload is bytes, not str"):
            await strong.broadcast("text")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="best-effort broadcast carries"):
            await strong.broadcast(bytes(5000), semantics="best-effort")
        with pytest.raises(UsageError, match="reliable broadcast carries"):
            await strong.broadcast(bytes(2_000_000))
        with pytest.raises(UsageError, match="semantics is"):
            await strong.broadcast(b"", semantics="perfect")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="takes no part in"):
            await strong.broadcast(b"", to=[type(strong.me)(bytes(20))])

    play(script)


def test_a_handler_that_fails_is_counted_and_the_message_counts_as_delivered() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        def fail(delivery: Delivery) -> None:
            raise RuntimeError("no")

        one = await nodes.start()
        other = await nodes.start(on_deliver=fail)
        await asyncio.sleep(3)
        await one.strong.broadcast(b"x")
        await one.strong.receipt(1).wait("safe")
        assert other.runtime.metrics.as_dict()["strong_handler_errors"] == {"deliver": 1}

    play(script)


def test_a_handler_whose_work_is_cancelled_fails_and_gets_the_next_message() -> None:
    begun: list[bytes] = []

    async def give_up(delivery: Delivery) -> None:
        begun.append(delivery.payload)
        work = asyncio.ensure_future(asyncio.sleep(100))
        work.cancel()
        await work

    async def script(network: Network, nodes: StrongNodes) -> None:
        one = await nodes.start()
        other = await nodes.start(on_deliver=give_up)
        await asyncio.sleep(3)
        for number in range(3):
            await one.strong.broadcast(b"%d" % number)
        await one.strong.receipt(3).wait("safe")
        assert sorted(begun) == [b"0", b"1", b"2"]
        assert other.runtime.metrics.as_dict()["strong_handler_errors"] == {"deliver": 3}

    play(script, loss=0.0)


def test_messages_of_topics_that_nobody_joined_here_are_counted_and_dropped() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        one, other = [await nodes.start() for _ in range(2)]
        await other.topics.join("/elsewhere", print, known=(one.runtime.contact,))
        assert one.runtime.metrics.as_dict()["strong_dropped"]["not_in_topic"] >= 1  # type: ignore[index]

    play(script, loss=0.0)


def test_one_that_nobody_answered_knows_that_others_may_take_part() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        first = await nodes.start()
        network.link(nth_host(0), nth_host(1), latency=Latency.constant(1.5))
        second = await nodes.start()
        assert len(second.strong.participants) == 1, "it has begun the topic by itself"
        assert first.strong.is_whole
        assert not second.strong.is_whole
        await asyncio.sleep(20)
        assert len(second.strong.participants) == 2
        network.crash(first.host)
        await asyncio.sleep(30)
        assert second.strong.is_whole, "it has met the other one, which is gone"

    play(script, loss=0.0)


def test_one_that_was_told_that_nobody_takes_part_expects_nobody() -> None:
    async def script(network: Network, nodes: StrongNodes) -> None:
        first = await nodes.start()
        await first.strong.leave()
        second = await nodes.start()
        assert second.strong.is_whole

    play(script)
