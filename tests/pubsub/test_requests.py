"""Requests and replies between whole nodes on the virtual network."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node, NoReply, RequestFailed
from pubsub.data import DataError
from pubsub.requests import Serving


async def nodes(stack: AsyncExitStack, count: int, **settings: Any) -> list[Node]:
    made = [await stack.enter_async_context(Node(**settings))]
    for _ in range(count - 1):
        bootstrap = [str(made[0].address)]
        made.append(await stack.enter_async_context(Node(bootstrap=bootstrap, **settings)))
    return made


async def serve(serving: Serving, served: list[Any], prefix: str) -> None:
    async for request in serving:
        served.append((prefix, request.id))
        await request.reply(f"{prefix}{request.data}")


@pytest.mark.parametrize("seed", range(4))
def test_every_request_gets_its_reply_through_loss_and_duplication(seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            one, two, three = await nodes(stack, 3)
            served: list[Any] = []
            for node, prefix in ((one, "a"), (two, "b")):
                serving = await stack.enter_async_context(node.serve("/quotes"))
                task = asyncio.create_task(serve(serving, served, prefix))
                stack.callback(task.cancel)
            replies = await asyncio.gather(
                *(three.request("/quotes", number, timeout=20) for number in range(20))
            )
            assert [int(reply[1:]) for reply in replies] == list(range(20))
            # A datagram that was lost may have hidden one of them at first.
            async with asyncio.timeout(30):
                while {prefix for prefix, _ in served} != {"a", "b"}:
                    await three.request("/quotes", 20, timeout=20)

    Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.1, duplicate=0.1).run(main())


@pytest.mark.parametrize("seed", range(4))
def test_another_server_is_asked_when_the_first_is_silent(seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            silent, other, asker = await nodes(stack, 3)
            served: list[Any] = []
            await stack.enter_async_context(silent.serve("/quotes"))  # nobody takes its requests
            serving = await stack.enter_async_context(other.serve("/quotes"))
            task = asyncio.create_task(serve(serving, served, "other "))
            stack.callback(task.cancel)
            replies = [await asker.request("/quotes", n, timeout=9) for n in range(6)]
            assert replies == [f"other {number}" for number in range(6)]
            dropped = silent.metrics.family("requests_dropped", "reason", "")
            assert dropped.total == 0

    Network(seed).run(main())


@pytest.mark.parametrize("seed", range(4))
def test_requests_that_a_closed_server_has_not_begun_go_to_another_one(seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            first, second, asker = await nodes(stack, 3)
            async with first.serve("/quotes"):
                waiting = [
                    asyncio.create_task(asker.request("/quotes", n, timeout=30)) for n in range(5)
                ]
                await asyncio.sleep(2)
                serving = await stack.enter_async_context(second.serve("/quotes"))
                task = asyncio.create_task(serve(serving, [], ""))
                stack.callback(task.cancel)
            begun = asyncio.get_running_loop().time()
            assert await asyncio.gather(*waiting) == [str(number) for number in range(5)]
            assert asyncio.get_running_loop().time() - begun < 8, "they were told, and asked again"

    Network(seed).run(main())


def test_a_request_that_nobody_serves_says_so_in_time() -> None:
    async def main() -> None:
        async with Node() as node:
            begun = asyncio.get_running_loop().time()
            with pytest.raises(NoReply, match=r"nobody that serves /nothing .* within 3 s"):
                await node.request("/nothing", timeout=3)
            assert asyncio.get_running_loop().time() - begun == pytest.approx(3)

    Network(1).run(main())


def test_a_server_says_that_it_cannot_and_stops() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server, asker = await nodes(stack, 2)

            async def refuse(serving: Serving) -> None:
                async for request in serving:
                    await request.fail("no such quote")
                    await request.reply("too late")
                    assert request.sender == asker.id

            async with server.serve("/quotes") as serving:
                task = asyncio.create_task(refuse(serving))
                with pytest.raises(RequestFailed, match="/quotes: no such quote"):
                    await asker.request("/quotes", "x")
                with pytest.raises(UsageError, match="serves /quotes already"):
                    async with server.serve("/quotes"):
                        pass
            await task  # the requests have ended with the block
            with pytest.raises(NoReply):
                await asker.request("/quotes", "x", timeout=2)

    Network(1).run(main())


def test_a_newcomer_may_be_asked_before_it_is_found() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server, asker = await nodes(stack, 2)
            waiting = asyncio.create_task(asker.request("/late", 7, timeout=10))
            await asyncio.sleep(3)
            async with server.serve("/late") as serving:
                async for request in serving:
                    await request.reply(request.data + 1)
                    break
                assert await waiting == 8

    Network(1).run(main())


@pytest.mark.parametrize("seed", range(4))
def test_all_who_serve_reply_through_loss_and_the_asker_may_be_one_of_them(seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            made = await nodes(stack, 6)
            for number, node in enumerate(made[:5]):
                serving = await stack.enter_async_context(node.serve("/quotes"))
                task = asyncio.create_task(serve(serving, [], f"{number} "))
                stack.callback(task.cancel)
            for asker in made[0], made[5]:
                # A newcomer is found when its announcement has been passed on.
                async with asyncio.timeout(30):
                    while len(replies := await asker.request_all("/quotes", "x", timeout=20)) < 5:
                        pass
                wanted = {(node.id, f"{number} x", "") for number, node in enumerate(made[:5])}
                assert set(replies) == wanted
                assert len(replies) == 5

    Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.1, duplicate=0.1).run(main())


def test_one_silent_server_costs_the_others_nothing_but_time() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            silent, refusing, asker = await nodes(stack, 3)
            await stack.enter_async_context(silent.serve("/quotes"))  # nobody takes its requests

            async def refuse() -> None:
                async for request in refusing.serve("/quotes"):
                    await request.fail("no such quote")

            task = asyncio.create_task(refuse())
            stack.callback(task.cancel)
            begun = asyncio.get_running_loop().time()
            replies = await asker.request_all("/quotes", "x", timeout=4)
            assert replies == [(refusing.id, None, "no such quote")]
            assert asyncio.get_running_loop().time() - begun == pytest.approx(4)
            with pytest.raises(NoReply, match="within 1 s"):
                await asker.request_all("/nothing", timeout=1)

    Network(1).run(main())


def test_a_loop_without_a_block_serves_until_it_ends() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server, asker = await nodes(stack, 2)

            async def serve_one() -> None:
                async for request in server.serve("/once"):
                    await request.reply(request.data)
                    break

            task = asyncio.create_task(serve_one())
            assert await asker.request("/once", 1) == 1
            await task
            with pytest.raises(NoReply):
                await asker.request("/once", 2, timeout=2)

    Network(1).run(main())


def test_bad_input_is_one_sentence() -> None:
    async def main() -> None:
        async with Node() as node:
            with pytest.raises(UsageError, match="timeout"):
                await node.request("/a", timeout=0)
            with pytest.raises(UsageError, match="topic"):
                await node.request("a")
            with pytest.raises(UsageError, match="timeout"):
                await node.request_all("/a", timeout=0)
            for wrong in (None, "5", float("nan")):
                with pytest.raises(UsageError, match="timeout is seconds, more than 0"):
                    await node.request("/a", timeout=wrong)  # type: ignore[arg-type]
            async with node.serve("/a") as serving:
                pass
            with pytest.raises(UsageError, match=r"has ended: call node\.serve once more"):
                async for _ in serving:
                    pass

    Network(1).run(main())


@pytest.mark.parametrize("data", [object(), 2**70, {1, 2}, "\ud800", b"x" * 2**21])
def test_what_cannot_travel_is_told_who_asks_and_who_replies(data: Any) -> None:
    async def serve_badly(serving: Serving) -> None:
        async for request in serving:
            with pytest.raises(DataError):
                await request.reply(data)
            with pytest.raises(UsageError, match="in a sentence"):
                await request.fail(5)  # type: ignore[arg-type]
            await request.fail("cannot say it")

    async def main() -> None:
        async with Node() as node, node.serve("/a") as serving:
            task = asyncio.create_task(serve_badly(serving))
            for ask in (node.request, node.request_all):
                with pytest.raises(DataError):
                    await ask("/a", data)
            with pytest.raises(RequestFailed, match="cannot say it"):
                await node.request("/a", 1)
            task.cancel()

    Network(1).run(main())


@pytest.mark.parametrize("seed", range(3))
def test_requests_are_served_while_half_of_the_servers_are_out_of_reach(seed: int) -> None:
    """The directory's searches take seconds then; those who were found before are asked meanwhile."""
    hosts = [nth_host(number) for number in range(1, 6)]
    latency = Latency.uniform(0.005, 0.08)
    network = Network(seed, latency=latency, loss=0.1, duplicate=0.1)

    async def server(host: str) -> None:
        bootstrap = [] if host == hosts[0] else [f"{hosts[0]}:4000"]
        async with Node(listen=f"{host}:4000", bootstrap=bootstrap) as node:
            async for request in node.serve("/quotes"):
                await request.reply(request.data)

    async def ask(node: Node, number: int) -> bool:
        await asyncio.sleep(number * 0.2)
        try:
            return bool(await node.request("/quotes", number, timeout=5) == number)
        except NoReply:
            return False

    async def ask_all(node: Node, number: int) -> set[PeerId]:
        await asyncio.sleep(number)
        try:
            replies = await node.request_all("/quotes", number, timeout=5)
        except NoReply:
            return set()
        return {reply.server for reply in replies}

    async def asker() -> None:
        async with Node(listen=f"{hosts[4]}:4000", bootstrap=[f"{hosts[0]}:4000"]) as node:
            assert await node.request("/quotes", 0, timeout=20) == 0
            assert await node.request_all("/quotes", 0, timeout=20)
            network.crash(hosts[1])
            network.crash(hosts[2])
            asked = [ask(node, number) for number in range(1, 60)]
            asked_all = [ask_all(node, number) for number in range(1, 10)]
            served = await asyncio.gather(*asked)
            assert sum(served) >= 50, served
            assert all(await asyncio.gather(*asked_all))

    async def main() -> None:
        for host in hosts[:4]:
            network.spawn(host, server(host))
            await asyncio.sleep(2)
        await asyncio.sleep(3)
        await network.spawn(hosts[4], asker())

    network.run(main())


@pytest.mark.parametrize("seconds", [2.1, 4.0, 4.9])
def test_the_reply_of_a_slow_server_counts_though_it_was_given_up(seconds: float) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            server, asker = await nodes(stack, 2)

            async def serve_slowly() -> None:
                async for request in server.serve("/quotes"):
                    await asyncio.sleep(seconds)
                    await request.reply("late")

            task = asyncio.create_task(serve_slowly())
            stack.callback(task.cancel)
            assert await asker.request("/quotes", timeout=6) == "late"
            assert asyncio.get_running_loop().time() < seconds + 1

    Network(0, latency=Latency.uniform(0.005, 0.02)).run(main())
