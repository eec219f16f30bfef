"""What a node of the network cannot do to the doors on other nodes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.doors.mqtt.bridge import open_hub
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.names import DOORS
from pubsub.doors.mqtt.network import MqttConfig
from pubsub.doors.mqtt.other_doors import BEAT_SECONDS

KEY = bytes(range(32))


def test_a_node_does_not_speak_for_the_door_of_another() -> None:
    """It would have the door's clients lose their turn, and the door its wills."""
    net = Network(seed=1, latency=Latency.constant(0.005))
    group = b"a group."

    async def main() -> None:
        nodes: list[Node] = []
        async with AsyncExitStack() as stack:

            async def node() -> Node:
                known = [f"{nth_host(0)}:4000"] if nodes else []
                here = Node(listen=f"{nth_host(len(nodes))}:4000", bootstrap=known, keys=[KEY])
                nodes.append(await stack.enter_async_context(here))
                return here

            async def door() -> Hub:
                hub = await open_hub(stack, await node(), None, MqttConfig())
                hub.doors.joined(group)
                return hub

            first, second = await door(), await door()
            hostile = await node()
            events = await stack.enter_async_context(hostile.subscribe(DOORS))
            await asyncio.sleep(3 * BEAT_SECONDS)
            assert first.doors.is_elsewhere(group)
            assert second.doors.is_elsewhere(group)
            doors = {event.data["door"] for event in events.take_waiting(100)}
            assert len(doors) == 2
            for said in doors:
                await hostile.publish(DOORS, {"door": said, "groups": [], "wills": []})
            await asyncio.sleep(BEAT_SECONDS / 8)
            assert first.doors.is_elsewhere(group)
            assert second.doors.is_elsewhere(group)
            for one in nodes[:2]:
                counted = one.metrics.as_dict()["mqtt_messages_dropped"]
                assert counted == {"door_of_another": 1}, "each has heard the lie about the other"

    net.run(main(), limit=1000)
