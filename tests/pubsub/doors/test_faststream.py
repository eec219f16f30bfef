"""A FastStream application as it stands, with the MQTT door as its broker."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from faststream import FastStream
from faststream.mqtt import MQTTBroker, QoS
from pydantic import BaseModel

from overlay import loops
from pubsub import Archive, Node
from pubsub.doors.mqtt import MqttDoor, message_in


class Goal(BaseModel):
    team: str
    minute: int


class Headline(BaseModel):
    text: str


def application(url: str, version: Literal["3.1.1", "5.0"]) -> FastStream:
    broker = MQTTBroker(url, version=version)

    @broker.subscriber("soccer/+", qos=QoS.AT_LEAST_ONCE)
    @broker.publisher("headlines", qos=QoS.AT_LEAST_ONCE)
    async def report(goal: Goal) -> Headline:
        return Headline(text=f"{goal.team} scores in minute {goal.minute}")

    return FastStream(broker)


@pytest.mark.parametrize("version", ["3.1.1", "5.0"])
def test_an_application_hears_and_answers_the_network(version: Literal["3.1.1", "5.0"]) -> None:
    async def main() -> None:
        async with (
            Archive(["/headlines"], "memory:") as archive,
            Node(bootstrap=[str(archive.node.address)]) as first,
            Node(bootstrap=[str(archive.node.address)]) as node,
            MqttDoor(first, "127.0.0.1:0", durable=["/headlines"]) as door,
        ):
            app = application(f"mqtt://{door.address}", version)
            await app.start()
            try:
                for minute in range(3):
                    await node.publish("/soccer/italy", {"team": "Roma", "minute": minute})
                texts = []
                async with node.subscribe("/headlines", durable="x", since="beginning") as events:
                    async for event in events:
                        found = message_in(event.topic, event.data)
                        assert found is not None
                        texts.append(Headline.model_validate_json(found.payload).text)
                        if len(texts) == 3:
                            break
                assert texts == [f"Roma scores in minute {minute}" for minute in range(3)]
            finally:
                await app.stop()

    loops.run(asyncio.wait_for(main(), 60))
