"""A member sends what is of no use in its own session: that is noticed, and costs no more than any flood."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from overlay.identity import Identity
from overlay.transport.config import SocketConfig
from overlay.transport.frame import FrameKind
from overlay.virtual import Network, nth_host
from overlay.wire import encode
from pubsub import Node
from pubsub.data import pack_data
from pubsub.event import Gossip, Head, encode_copy, make_block
from pubsub.gate import ShowRights, TakenBack
from pubsub.rights import Action, Grant, grant_first
from tests.pubsub.playground import received

ROOT, HONEST, FRIEND, HOSTILE = (Identity(bytes([n]) * 32) for n in range(1, 5))
TOPIC = "/t"
LIMIT = 200


def right_of(who: Identity) -> bytes:
    actions = Action.PUBLISH | Action.SUBSCRIBE
    return grant_first(ROOT, Grant(who.public_key, actions, "/**")).packed


def forged_block(number: int) -> bytes:
    block = make_block(FRIEND.id + b"some run", number, Head(TOPIC), [pack_data("lies")])
    block.signature = HOSTILE.public_key + bytes(64) + right_of(HOSTILE)
    return encode_copy(Gossip(block, TOPIC, 1))


def forged_revocation(number: int) -> bytes:
    return encode(TakenBack((ROOT.public_key + number.to_bytes(64, "little") + right_of(HONEST),)))


MESSAGES: dict[str, Callable[[int], bytes]] = {
    "nonsense": lambda number: b"\x93\x01" + number.to_bytes(4, "big"),
    "forged blocks": forged_block,
    "forged revocations": forged_revocation,
    "rights, again and again": lambda number: encode(ShowRights((), b"", False)),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_member_that_sends_what_is_of_no_use_is_not_read_until_it_stops(kind: str) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:

            async def node(number: int, who: Identity) -> Node:
                one = Node(
                    listen=f"{nth_host(number)}:4000",
                    bootstrap=[f"{nth_host(0)}:4000"] if number else [],
                    keys=[bytes(range(32))],
                    identity=who,
                    authority=[ROOT.public_key],
                    rights=[right_of(who)],
                    socket=SocketConfig(flood_limit=LIMIT),
                )
                return await stack.enter_async_context(one)

            reader, friend, hostile = [
                await node(number, who) for number, who in enumerate((HONEST, FRIEND, HOSTILE))
            ]
            events = await stack.enter_async_context(reader.subscribe(TOPIC))
            await stack.enter_async_context(hostile.subscribe(TOPIC))
            await friend.publish(TOPIC, "before")
            assert [event.data for event in await received(events, 1)] == ["before"]
            hostile_endpoint = hostile.attachment.runtime.endpoint
            to, floods = reader.attachment.contact, reader.metrics.counter("floods", "")
            for turn in range(100):
                for number in range(10 * LIMIT // 100):
                    body = MESSAGES[kind](1 + turn * LIMIT + number)
                    hostile_endpoint.send(to, FrameKind.DATAGRAM, body)
                    hostile_endpoint.send_waiting()
                if turn == 50:
                    await friend.publish(TOPIC, "meanwhile")
                await asyncio.sleep(0.01)
            assert floods.value == 1
            dropped = reader.metrics.counter("flood_datagrams_dropped", "")
            assert dropped.value > LIMIT
            await friend.publish(TOPIC, "after")
            found = await received(events, 2)
            assert {event.data for event in found} == {"meanwhile", "after"}

    Network(1).run(main())
