"""What is caused in one turn of the loop leaves at its end, once and in order."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import SENDS_A_TURN
from overlay.turn import Turn
from overlay.virtual import Network
from overlay.wire import encode
from tests.overlay.endpoint_parties import on_every_loop, two
from tests.overlay.test_runtime import Blob


def run(main: Callable[[], Any]) -> None:
    asyncio.run(main())


def test_actions_run_once_in_order_and_before_what_flushes_in_one_callback() -> None:
    async def main() -> None:
        turn, seen = Turn(), list[str]()
        turn.then(lambda: bool(seen.append("endpoint")))
        turn.then(lambda: bool(seen.append("channels")))

        def second() -> None:
            seen.append("second")

        def first() -> None:
            seen.append("first")
            turn.before_flush(first)
            turn.before_flush(second)

        turn.before_flush(first)
        turn.before_flush(first)
        assert seen == []
        await asyncio.sleep(0)
        assert seen == ["first", "second", "channels", "endpoint"]
        seen.clear()
        await asyncio.sleep(0)
        assert seen == ["first", "second", "channels", "endpoint"]

    run(main)


def test_a_flush_with_more_to_do_is_asked_again_after_other_tasks_had_a_turn() -> None:
    async def main() -> None:
        turn, rest, turns = Turn(), [3], 0

        def flush() -> bool:
            rest[0] -= 1
            return rest[0] > 0

        turn.then(flush)
        turn.schedule()
        while rest[0]:
            await asyncio.sleep(0)
            turns += 1
        assert turns == 3
        await asyncio.sleep(0)
        assert rest == [0]

    run(main)


def test_an_action_that_fails_is_reported_and_hinders_nobody() -> None:
    async def main() -> None:
        reports, seen = list[dict[str, Any]](), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        turn = Turn()
        turn.then(lambda: bool(seen.append("sent")))
        turn.before_flush(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        turn.before_flush(lambda: seen.append("other"))
        await asyncio.sleep(0)
        assert seen == ["other", "sent"]
        assert isinstance(reports[0]["exception"], ZeroDivisionError)

    run(main)


@on_every_loop
def test_a_large_burst_gives_other_tasks_turns(run: Callable[[Any], None]) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            for _ in range(5 * SENDS_A_TURN):
                alice.send(bob, b"x" * 1300)
            turns, sent = 0, 0
            while sent < 5 * SENDS_A_TURN:
                await asyncio.sleep(0)
                assert alice.count("datagrams_sent") - sent <= SENDS_A_TURN
                sent = alice.count("datagrams_sent")
                turns += 1
            assert turns >= 5

    run(main())


def test_an_encoded_message_reaches_many_peers_and_oneself() -> None:
    async def main() -> None:
        config = RuntimeConfig(EndpointConfig("127.0.0.1:0"))
        nodes = [await Runtime.open(config) for _ in range(3)]
        got: list[tuple[int, object]] = []
        acks: list[bool] = []
        arrived = asyncio.Event()

        def note(what: list[Any], value: object) -> None:
            what.append(value)
            if len(got) == 6 and len(acks) == 3:
                arrived.set()

        for place, node in enumerate(nodes):
            node.on(Blob, lambda _, message, place=place: note(got, (place, message)))  # type: ignore[misc]
        data = encode(Blob(b"many"))
        for node in nodes:
            assert nodes[0].send_encoded(node.contact, data, lambda arrives: note(acks, arrives))
            assert nodes[0].send_encoded_datagram(node.contact, data)
        async with asyncio.timeout(10):
            await arrived.wait()
        assert sorted(place for place, _ in got) == [0, 0, 1, 1, 2, 2]
        assert {message for _, message in got} == {Blob(b"many")}
        assert acks == [True] * 3
        for node in nodes:
            await node.close()

    Network(seed=3).run(main())


@on_every_loop
def test_what_a_caller_keeps_in_context_variables_does_not_go_on_living_in_the_node(
    run: Callable[[Any], None],
) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")

    async def main() -> None:
        config = RuntimeConfig(EndpointConfig("127.0.0.1:0"))
        one, other = await Runtime.open(config), await Runtime.open(config)
        seen: list[str] = []
        acknowledged = asyncio.Event()
        other.on(Blob, lambda _, message: seen.append(request.get()))

        def on_ack(arrived: bool) -> None:
            seen.append(request.get())
            acknowledged.set()

        async def caller() -> None:
            request.set("a caller's")
            one.call_later(0, lambda: seen.append(request.get()))
            one.turn.before_flush(lambda: seen.append(request.get()))
            assert one.send(other.contact, Blob(b"x"), on_ack)

        await asyncio.create_task(caller())
        async with asyncio.timeout(10):
            await acknowledged.wait()
        assert seen == ["none"] * 4
        await one.close()
        await other.close()

    run(main())
