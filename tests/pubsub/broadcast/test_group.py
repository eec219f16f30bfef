"""Groups over the whole stack of a node: on the virtual network under faults, and over real UDP."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from overlay.channel import ChannelConfig
from overlay.errors import ClosedError, UsageError
from overlay.loops import run as run_on_real_loop
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Latency, Network, nth_host
from pubsub.broadcast.events import Deliver, LayerMessage
from pubsub.broadcast.group import Group, GroupChannel, GroupError
from pubsub.broadcast.kernel import (
    CompositionError,
    Layer,
    LayerChannel,
    LayerEvent,
    LayerSession,
    Stack,
)
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.process import GroupProcess
from pubsub.broadcast.reliable import UniformAllAck
from pubsub.broadcast.stacks import NAMES

MEMBERS = [f"{nth_host(number)}:4000" for number in range(4)]


async def take(group: Group, count: int) -> list[tuple[int, Any]]:
    taken = []
    async for message in group:
        taken.append((message.source, message.data))
        if len(taken) == count:
            break
    return taken


async def member(rank: int, sends: int, expects: int, done: asyncio.Event, **how: Any) -> Any:
    """A program: broadcasts, takes what it expects, and stays until the test is done."""
    async with Group(MEMBERS, rank, **how) as group:
        for number in range(sends):
            await group.broadcast([rank, number])
        taken = await take(group, expects)
        await done.wait()
        return taken


def on_a_network(main: Any, seed: int = 1, loss: float = 0.1) -> Any:
    net = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=loss, duplicate=0.05)
    return net.run(main(net), limit=300)


@pytest.mark.parametrize("order", ["fifo", "causal"])
@pytest.mark.parametrize("qos", ["beb", "rb", "urb", "iurb"])
def test_everyone_delivers_everything_in_order_over_a_lossy_network(qos: str, order: str) -> None:
    async def main(net: Network) -> Any:
        done = asyncio.Event()
        tasks = [
            net.spawn(nth_host(rank), member(rank, 5, 20, done, qos=qos, order=order))
            for rank in range(4)
        ]
        await asyncio.sleep(20)
        done.set()
        return await asyncio.gather(*tasks)

    for taken in on_a_network(main):
        for source in range(4):
            assert [data for by, data in taken if by == source] == [[source, n] for n in range(5)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("qos", ["rb", "urb"])
def test_the_others_agree_when_a_member_crashes_and_go_on(qos: str, seed: int) -> None:
    async def main(net: Network) -> Any:
        groups: dict[int, Group] = {}
        told: list[int] = []

        async def program(rank: int) -> list[Any]:
            async with Group(MEMBERS, rank, qos, on_crash=told.append) as group:
                groups[rank] = group
                await group.met()
                await group.broadcast([rank, 0])
                return [data async for _, data in _pairs(group)]

        tasks = [net.spawn(nth_host(rank), program(rank)) for rank in range(4)]
        await asyncio.sleep(2)
        net.crash(nth_host(3))
        await asyncio.sleep(10)
        assert all(groups[rank].crashed == [3] for rank in range(3))
        assert told == [3] * 3
        await net.spawn(nth_host(0), groups[0].broadcast("after"))
        await asyncio.sleep(5)
        for rank in range(3):
            net.spawn(nth_host(rank), groups[rank].close())
        return await asyncio.gather(*tasks[:3])

    for taken in on_a_network(main, seed):
        assert sorted(map(str, taken)) == sorted(map(str, [*([r, 0] for r in range(4)), "after"]))


async def _pairs(group: Group) -> Any:
    async for message in group:
        yield message.source, message.data


def test_a_majority_goes_on_in_a_partition_and_the_rest_catches_up() -> None:
    async def main(net: Network) -> Any:
        taken: dict[int, Any] = {}
        opened, done = asyncio.Event(), asyncio.Event()

        async def program(rank: int) -> None:
            async with Group(MEMBERS, rank, "iurb") as group:
                await group.met()
                await opened.wait()
                if rank == 0:
                    await group.broadcast("during")
                taken[rank] = await take(group, 1)
                await done.wait()

        tasks = [net.spawn(nth_host(rank), program(rank)) for rank in range(4)]
        await asyncio.sleep(3)
        net.partition({nth_host(0), nth_host(1), nth_host(2)}, {nth_host(3)})
        opened.set()
        await asyncio.sleep(20)
        assert sorted(taken) == [0, 1, 2]
        net.heal()
        await asyncio.sleep(20)
        assert taken == {rank: [(0, "during")] for rank in range(4)}
        done.set()
        await asyncio.gather(*tasks)

    on_a_network(main, loss=0.02)


def test_a_member_with_a_log_comes_back_and_delivers_what_it_missed(tmp_path: Path) -> None:
    async def main(net: Network) -> None:
        taken: dict[int, list[Any]] = {rank: [] for rank in range(3)}
        groups: dict[int, Group] = {}

        async def program(rank: int) -> None:
            log = tmp_path / f"{rank}.sqlite"
            async with Group(MEMBERS[:3], rank, "iurb", log=log) as group:
                groups[rank] = group
                async for message in group:
                    taken[rank].append(message.data)

        for rank in range(3):
            net.spawn(nth_host(rank), program(rank))
        await asyncio.sleep(2)
        await net.spawn(nth_host(0), groups[0].broadcast("before"))
        await asyncio.sleep(2)
        net.crash(nth_host(2))
        assert groups[2]._log is not None
        groups[
            2
        ]._log.journal._file.close()  # as the end of a real process does, with nothing more written
        await net.spawn(nth_host(0), groups[0].broadcast("meanwhile"))
        await asyncio.sleep(10)
        assert taken == {0: ["before", "meanwhile"], 1: ["before", "meanwhile"], 2: ["before"]}
        net.restart(nth_host(2))
        taken[2].clear()
        net.spawn(nth_host(2), program(2))
        await asyncio.sleep(10)
        assert taken[2] == ["meanwhile"]
        await net.spawn(nth_host(2), groups[2].broadcast("after"))
        await asyncio.sleep(10)
        assert [taken[rank][-1] for rank in range(3)] == ["after"] * 3
        assert taken[0] == ["before", "meanwhile", "after"]

    on_a_network(main)


def test_a_process_that_started_again_is_refused() -> None:
    async def main(net: Network) -> None:
        async def program(rank: int) -> None:
            async with Group(MEMBERS[:2], rank, "urb") as group:
                await group.met()
                await asyncio.sleep(1000)

        for rank in range(2):
            net.spawn(nth_host(rank), program(rank))
        await asyncio.sleep(2)
        net.crash(nth_host(1))
        net.restart(nth_host(1))
        with pytest.raises(GroupError, match="earlier process of rank 1"):
            await net.spawn(nth_host(1), program(1))

    on_a_network(main)


def test_the_detector_is_not_started_before_everyone_was_met() -> None:
    async def main(net: Network) -> None:
        async def program() -> None:
            async with Group(MEMBERS, 0, "urb", detector="by_hand") as group:
                assert group.missing == [1, 2, 3]
                with pytest.raises(GroupError, match="member 1 has not been met"):
                    group.start_detector()

        await net.spawn(nth_host(0), program())

    on_a_network(main)


@pytest.mark.parametrize("qos", NAMES)
def test_a_closed_group_leaves_nothing_behind_on_a_runtime_that_goes_on(qos: str) -> None:
    async def main(net: Network) -> None:
        async def program() -> None:
            config = RuntimeConfig(EndpointConfig(MEMBERS[0]))
            async with await Runtime.open(config) as runtime:
                async with Group(MEMBERS, 0, qos, runtime=runtime) as group:
                    await group.broadcast("to nobody")
                await asyncio.sleep(5)
                assert not runtime._timers
                assert not runtime.failure.watched
                async with Group(MEMBERS, 0, qos, runtime=runtime):
                    pass

        await net.spawn(nth_host(0), program())

    on_a_network(main)


def test_nobody_is_met_outside_the_group() -> None:
    with pytest.raises(ClosedError, match="inside"):
        asyncio.run(Group(MEMBERS, 0).met())


def test_what_cannot_work_is_refused() -> None:
    def refused(complaint: str, *arguments: Any, **more: Any) -> None:
        with pytest.raises(UsageError, match=complaint):
            Group(*arguments, **more)

    refused("rank=4", MEMBERS, 4)
    refused("rank='1' is not one of 0 to 3", MEMBERS, "1")
    refused("members is empty", [], 0)
    refused("same address", [MEMBERS[0]] * 2, 0)
    refused("'abc' is none of", MEMBERS, 0, "abc")
    refused("order='abc'", MEMBERS, 0, order="abc")
    refused("detector is", MEMBERS, 0, detector="abc")
    refused("a log goes with", MEMBERS, 0, "urb", log="log")

    async def main(net: Network) -> None:
        async def program() -> None:
            group = Group(MEMBERS, 0, "pb")
            with pytest.raises(ClosedError):
                await group.broadcast("early")
            async with group:
                with pytest.raises(UsageError, match="is the most that pb carries"):
                    await group.broadcast("x" * 10_000)
                with pytest.raises(UsageError, match="cannot be sent"):
                    await group.broadcast(object())
                with pytest.raises(UsageError, match="entered once"):
                    await group.__aenter__()

        await net.spawn(nth_host(0), program())

    on_a_network(main)


def test_a_message_that_the_given_runtime_does_not_carry_is_refused() -> None:
    async def main(net: Network) -> None:
        async def program() -> None:
            small = RuntimeConfig(EndpointConfig(MEMBERS[0]), ChannelConfig(max_message=65_536))
            async with (
                await Runtime.open(small) as runtime,
                Group(MEMBERS, 0, "urb", runtime=runtime) as group,
            ):
                await group.broadcast("x" * 60_000)
                with pytest.raises(UsageError, match="65024 is the most that urb carries"):
                    await group.broadcast("x" * 70_000)

        await net.spawn(nth_host(0), program())

    on_a_network(main)


@pytest.mark.parametrize("qos", NAMES)
def test_a_group_works_over_real_udp(qos: str) -> None:
    async def main() -> list[Any]:
        async with AsyncExitStack() as stack:
            runtimes = [
                await stack.enter_async_context(
                    await Runtime.open(RuntimeConfig(EndpointConfig("127.0.0.1:0")))
                )
                for _ in range(3)
            ]
            members = [str(runtime.contact.address) for runtime in runtimes]
            groups = [
                await stack.enter_async_context(
                    Group(members, rank, qos, runtime=runtime, probabilistic=Probabilistic(2, 2))
                )
                for rank, runtime in enumerate(runtimes)
            ]
            for group in groups:
                await group.met()
            for group in groups:
                await group.broadcast({"from": group.rank})
            return list(await asyncio.gather(*(take(group, 3) for group in groups)))

    for taken in run_on_real_loop(_within(20, main())):
        assert sorted(taken) == [(rank, {"from": rank}) for rank in range(3)]


async def _within(seconds: float, main: Coroutine[Any, Any, Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await main


def test_packets_that_are_not_taken_are_in_the_metrics_of_the_node() -> None:
    async def main(net: Network) -> None:
        async def program(rank: int, order: str) -> dict[str, Any]:
            config = RuntimeConfig(EndpointConfig(MEMBERS[rank]))
            async with await Runtime.open(config) as runtime:
                async with Group(MEMBERS[:2], rank, "beb", order=order, runtime=runtime):
                    await asyncio.sleep(10)
                return runtime.metrics.as_dict()

        programs = [
            net.spawn(nth_host(rank), program(rank, order))
            for rank, order in enumerate(["fifo", "causal"])
        ]
        for metrics in await asyncio.gather(*programs):
            assert list(metrics["group_dropped"]) == ["another_group"]

    on_a_network(main)


class Shout(Layer):
    """A layer of the caller's own: what passes it upward is in capitals."""

    name = "shout"
    requires = ("broadcast",)

    def session(self, process: GroupProcess) -> LayerSession:
        return ShoutSession(process)


class ShoutSession(LayerSession):
    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Deliver):
            loud = LayerMessage(str(event.message.data).upper(), event.message.headers)
            event = Deliver(event.source, loud, event.number)
        channel.up(self, event)


def test_a_group_runs_a_stack_that_the_caller_composed() -> None:
    layers = [Shout(), UniformAllAck(), PerfectDetector(), BestEffort(), PerfectLinks()]

    async def main(net: Network) -> Any:
        done = asyncio.Event()

        async def program(rank: int) -> list[tuple[int, Any]]:
            async with Group(MEMBERS, rank, Stack(layers, "loud")) as group:
                await group.broadcast(f"hello {rank}")
                taken = await take(group, 4)
                await done.wait()
                return sorted(taken)

        tasks = [net.spawn(nth_host(rank), program(rank)) for rank in range(4)]
        await asyncio.sleep(20)
        done.set()
        return await asyncio.gather(*tasks)

    assert on_a_network(main) == [[(rank, f"HELLO {rank}") for rank in range(4)]] * 4


def test_a_composed_stack_without_a_broadcast_is_refused() -> None:
    """What a group gave to such a stack went nowhere, without a word."""
    with pytest.raises(CompositionError, match="'mine' has no layer that broadcasts"):
        Group(MEMBERS, 0, Stack([PerfectLinks()], "mine"))


def test_an_order_or_gossip_beside_a_composed_stack_is_refused() -> None:
    stack = Stack([BestEffort(), PerfectLinks()])
    with pytest.raises(UsageError, match="put the layer into the stack"):
        Group(MEMBERS, 0, stack, order="fifo")
    with pytest.raises(UsageError, match="a log goes with"):
        Group(MEMBERS, 0, stack, log="x")


def shared_channels(
    rank: int, members: list[str], done: asyncio.Barrier
) -> Coroutine[Any, Any, Any]:
    """Broadcasts on two channels in turn, and gives what both delivered, in one list."""

    async def program() -> list[Any]:
        seen: list[Any] = []
        all_seen = asyncio.Event()
        async with Group(members, rank, "beb", order="fifo") as group:
            share = {"fifo": group.session("fifo")}
            async with group.channel("second", "beb", order="fifo", share=share) as second:

                async def note(channel: GroupChannel) -> None:
                    async for message in channel:
                        seen.append((message.source, message.data))
                        if len(seen) == 20 * len(members):
                            all_seen.set()

                notes = [asyncio.create_task(note(one)) for one in (group, second)]
                await group.met()
                for number in range(20):
                    await (group, second)[number % 2].broadcast(number)
                await all_seen.wait()
                await done.wait()
                for task in notes:
                    task.cancel()
        return seen

    return program()


def test_two_channels_share_a_session_over_a_lossy_network() -> None:
    async def main(net: Network) -> Any:
        done = asyncio.Barrier(4)
        programs = [
            net.spawn(nth_host(rank), shared_channels(rank, MEMBERS, done)) for rank in range(4)
        ]
        return await asyncio.gather(*programs)

    for seen in on_a_network(main):
        for source in range(4):
            numbers = [number for by, number in seen if by == source]
            assert sorted(numbers) == list(range(20))


def test_two_channels_share_a_session_over_real_udp() -> None:
    async def main() -> list[Any]:
        done = asyncio.Barrier(2)
        runtimes = [await Runtime.open(RuntimeConfig(EndpointConfig("127.0.0.1:0"))) for _ in "ab"]
        members = [str(runtime.contact.address) for runtime in runtimes]
        for runtime in runtimes:
            await runtime.close()
        async with asyncio.timeout(60):
            return await asyncio.gather(*(shared_channels(r, members, done) for r in range(2)))

    for seen in run_on_real_loop(main()):
        for source in range(2):
            assert sorted(number for by, number in seen if by == source) == list(range(20))


def test_channels_of_a_group_have_one_detector_and_all_hear_of_a_crash() -> None:
    async def main(net: Network) -> Any:
        crashes: list[int] = []
        delivered: list[Any] = []

        async def program(rank: int) -> None:
            async with (
                Group(MEMBERS[:3], rank, "urb", on_crash=crashes.append) as group,
                group.channel("second", "urb") as second,
            ):
                await group.met()
                if rank == 0:
                    await asyncio.sleep(5)
                    await second.broadcast("after the crash")
                async for message in second:
                    delivered.append((rank, message.data))

        for rank in range(3):
            net.spawn(nth_host(rank), program(rank))
        await asyncio.sleep(3)
        net.crash(nth_host(2))
        await asyncio.sleep(40)
        return crashes, sorted(delivered)

    crashes, delivered = on_a_network(main, loss=0.0)
    assert crashes == [2, 2]
    assert delivered == [(0, "after the crash"), (1, "after the crash")]


def test_a_broadcast_that_waits_for_room_ends_when_the_group_is_closed() -> None:
    async def main(net: Network) -> Any:
        async def program() -> str:
            group = Group(MEMBERS[:1], 0, "beb", most_unread=1)
            await group.__aenter__()
            await group.broadcast(1)
            waiting = asyncio.create_task(group.broadcast(2))
            await asyncio.sleep(1)
            assert not waiting.done()
            await group.close()
            try:
                await asyncio.wait_for(waiting, 5)
            except ClosedError:
                return "told"
            return "sent"

        return await net.spawn(nth_host(0), program())

    assert on_a_network(main) == "told"


def test_a_log_that_cannot_be_written_for_a_while_loses_nothing(tmp_path: Path) -> None:
    async def main(net: Network) -> Any:
        groups: dict[int, Group] = {}
        got: dict[int, list[Any]] = {0: [], 1: [], 2: []}

        async def program(rank: int) -> None:
            log = tmp_path / f"{rank}.sqlite"
            async with Group(MEMBERS[:3], rank, "iurb", log=log) as group:
                groups[rank] = group
                async for message in group:
                    got[rank].append(message.data)

        for rank in range(3):
            net.spawn(nth_host(rank), program(rank))
        await asyncio.sleep(3)
        assert groups[1]._log is not None
        file = groups[1]._log.journal._file
        pages = file.execute("PRAGMA page_count").fetchone()[0]
        file.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(20):
            await groups[0].broadcast([number, bytes(1000)])
        await asyncio.sleep(5)
        assert len(got[0]) == len(got[2]) == 20
        assert len(got[1]) < 20
        assert groups[1]._open_runtime().metrics.as_dict()["group_log_failures"] > 0
        file.execute("PRAGMA max_page_count = 100000")
        await asyncio.sleep(10)
        assert sorted(data[0] for data in got[1]) == list(range(20))

    on_a_network(main)


def test_the_log_of_another_member_is_refused(tmp_path: Path) -> None:
    async def main(net: Network) -> None:
        async with Group(MEMBERS[:1], 0, "iurb", log=tmp_path / "log"):
            pass
        with pytest.raises(UsageError, match="is the log of the member 0"):
            async with Group(MEMBERS[:2], 1, "iurb", log=tmp_path / "log"):
                pass

    on_a_network(main)
