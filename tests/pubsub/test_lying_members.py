"""A member with the network key lies to all others, in every message of the membership services.

It names members that are not there, leaves and joins again and again, asks others to forget and to hold it,
and says that there are four thousand million members. Events go on to all others. What it would say in
another's name its session does not allow.
"""

from __future__ import annotations

import asyncio
import random
import struct
from contextlib import AsyncExitStack

import pytest

from overlay.contact import Contact, PeerId
from overlay.identity import Identity
from overlay.membership import hyparview
from overlay.membership.scamp import messages as scamp
from overlay.membership.structured import drawing
from overlay.virtual import Network, nth_host
from pubsub import Node, Subscription

TOPIC = "/t"
HONEST = 6
EVENTS = 10


def lies(mode: str, draw: random.Random, turn: int) -> list[object]:
    def nobody() -> Contact:
        return Contact(PeerId(draw.randbytes(20)), f"127.9.{draw.randrange(250)}.9", 4000)

    def subscription() -> scamp.ScampSubscription:
        return scamp.ScampSubscription(nobody(), draw.getrandbits(32), 3600.0)

    census = struct.pack(">IB64I", turn, 0, *range(64))
    six = tuple(nobody() for _ in range(6))
    if mode == "structured":
        return [
            drawing.Drawn(TOPIC, 3600.0, 1e9, True, True),
            drawing.Released(TOPIC),
            drawing.Farewell(TOPIC),
            drawing.Confirm(TOPIC, 3600.0),
        ]
    if mode == "hyparview":
        return [
            hyparview.HyParViewJoin(TOPIC),
            hyparview.ForwardJoin(TOPIC, nobody(), 0),
            hyparview.Shuffle(TOPIC, nobody(), 0, six),
            hyparview.ShuffleAnswer(TOPIC, six),
            hyparview.Neighbour(TOPIC, True, census),
            hyparview.HyParViewDisconnect(TOPIC, False),
            hyparview.Keep(TOPIC, census, False),
        ]
    return [
        scamp.Forward(TOPIC, subscription(), 10**6),
        scamp.SubscriptionWalk(TOPIC, subscription(), 10**6, 10**6, 1, False),
        scamp.Echo(TOPIC, subscription(), census, False),
        scamp.Heartbeat(TOPIC, 1, 3600.0, True, census),
        scamp.Spare(TOPIC),
        scamp.Release(TOPIC),
        scamp.ScampUnsubscribe(TOPIC, subscription()),
    ]


@pytest.mark.parametrize(
    ("mode", "seed"),
    [
        *((mode, 1) for mode in ("semi-structured", "structured", "hyparview")),
        *(
            pytest.param(mode, seed, marks=pytest.mark.sweep)
            for mode in ("semi-structured", "structured", "hyparview")
            for seed in (2, 3, 4)
        ),
    ],
)
def test_who_lies_about_members_takes_no_event_from_others(mode: str, seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:

            async def member(number: int) -> tuple[Node, Subscription]:
                node = Node(
                    listen=f"{nth_host(number)}:4000",
                    bootstrap=[f"{nth_host(0)}:4000"] if number else [],
                    keys=[bytes(range(32))],
                    identity=Identity(bytes([number + 1]) * 32),
                    mode=mode,
                )
                await stack.enter_async_context(node)
                return node, await stack.enter_async_context(node.subscribe(TOPIC))

            nodes = [await member(number) for number in range(HONEST)]
            liar, _ = await member(HONEST)
            draw = random.Random(seed)

            async def lie() -> None:
                for turn in range(2 * EVENTS):
                    for node, _ in nodes:
                        for message in lies(mode, draw, turn):
                            liar.attachment.questions.send(node.attachment.contact, message)
                    await asyncio.sleep(0.5)

            lying = asyncio.ensure_future(lie())
            for number in range(EVENTS):
                await nodes[number % HONEST][0].publish(TOPIC, number)
                await asyncio.sleep(1)
            await lying
            for _, events in nodes:
                async with asyncio.timeout(5):
                    assert sorted([(await anext(events)).data for _ in range(EVENTS)]) == list(
                        range(EVENTS)
                    )

    Network(seed).run(main())
