"""A caller's mistake raises an exception of its own, in a sentence that names it."""

from __future__ import annotations

from dataclasses import fields
from math import nan
from typing import Any

import pytest

from overlay.errors import UsageError
from pubsub import (
    DAStrongSet,
    DAWeakSet,
    DurableConfig,
    NodeConfig,
    Parameters,
    Subscriber,
)
from pubsub.camcast.parameters import ParameterError
from pubsub.doors.http import HttpConfig
from pubsub.doors.mqtt import MqttConfig
from tests.pubsub.playground import Playground, play, received


@pytest.mark.parametrize("upward", ["x", True, -0.1, 1.5, float("nan"), [0.5]])
def test_what_is_no_probability_is_refused(upward: Any) -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        with pytest.raises(UsageError, match="upward is a probability, 0 to 1, not"):
            await node.publish("/a", upward=upward)
        assert node.status()["communities"] == {}

    play(71, main)


def test_whole_numbers_are_probabilities_too() -> None:
    async def main(p: Playground) -> None:
        _, events = await p.subscriber("/a")
        node = await p.node()
        await node.publish("/a/b", "no", upward=0, wait="acked")
        await node.publish("/a/b", "yes", upward=1, wait="acked")
        assert [event.data for event in await received(events, 1)] == ["yes"]

    play(72, main, mode="structured", parameters=Parameters(a=3))


@pytest.mark.parametrize("topic", [["/a"], None, b"/a", 7, {"/a"}, list[int]])
def test_what_names_no_topic_is_refused_by_name(topic: Any) -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        with pytest.raises(
            UsageError, match=r"is not a valid topic: name one by its path, .* or by a class"
        ):
            node.subscribe(topic)
        with pytest.raises(UsageError, match="is not a valid topic"):
            await node.publish(topic)
        with pytest.raises(UsageError, match="is not a valid topic"):
            await node.stop_publishing(topic)

    play(73, main)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ordr": "fifo"}, "there is no option 'ordr'"),
        ({"since": "now"}, "since goes with durable: name the subscription"),
        ({"durable": "x", "ordr": "fifo"}, "there is no option 'ordr'"),
        ({"durable": "x", "order": "fifo"}, "order does not go with durable"),
        ({"durable": "x", "queue": 7}, "queue does not go with durable"),
        ({"durable": 5}, "durable=5 is not a valid name"),
        ({"queue": True}, "queue is a number of events"),
        ({"queue": 2.0}, "queue is a number of events"),
    ],
)
def test_options_that_a_subscription_does_not_have_are_named(
    options: dict[str, Any], words: str
) -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        with pytest.raises(UsageError, match=words):
            node.subscribe("/a", **options)

    play(74, main)


async def answer_later(_: Any) -> bool:
    return False


def test_a_function_that_nobody_would_await_is_refused() -> None:
    """Its coroutine would count as true, and so as the answer yes."""
    with pytest.raises(UsageError, match="the validator of /a must be a plain function"):
        NodeConfig(validators={"/a": answer_later})  # type: ignore[dict-item]

    async def main(p: Playground) -> None:
        node = await p.node()
        plain = "must be a plain function, not a coroutine function"
        for kind in (DAWeakSet, DAStrongSet):
            with pytest.raises(UsageError, match=f"filter {plain}"):
                node.collection(kind, "/a").contains(filter=answer_later)
        with pytest.raises(UsageError, match="filter must be a function, not 5"):
            node.collection(DAStrongSet, "/a").contains(filter=5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"on_gap {plain}"):
            node.collection(DAStrongSet, "/a", on_gap=answer_later)
        with pytest.raises(UsageError, match=f"on_gap {plain}"):
            node.subscribe("/a", durable="name", on_gap=answer_later)
        with pytest.raises(UsageError, match=f"on_gap {plain}"):
            async with Subscriber(node=node) as light:
                light.subscribe("a", on_gap=answer_later)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="where is a condition, a profile, or several"):
            node.subscribe("/a", durable="name", where=5)

    play(76, main)


@pytest.mark.parametrize("options", [{"copies": 1}, {"copies": 3}])
def test_what_only_an_archive_promises_goes_with_durable(options: dict[str, Any]) -> None:
    async def main(p: Playground) -> None:
        node = await p.node()
        with pytest.raises(UsageError, match=f"{next(iter(options))} goes with durable=True"):
            await node.publish("/a", **options)
        assert node.status()["communities"] == {}

    play(75, main)


@pytest.mark.parametrize(
    "wrong",
    [{"z": True}, {"z": 2.0}, {"c": True}, {"g": "5"}, {"sure_links": 1}, {"keep_bytes": 1.5}],
)
def test_parameters_of_another_kind_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))} must be"):
        Parameters(**wrong)


@pytest.mark.parametrize("config", [MqttConfig, HttpConfig, DurableConfig])
def test_a_wrong_value_of_any_field_is_told_with_the_name_of_the_field(config: type[Any]) -> None:
    for field in fields(config):
        for wrong in (-1, nan, "text", None, []):
            with pytest.raises(UsageError, match=field.name):
                config(**{field.name: wrong})
