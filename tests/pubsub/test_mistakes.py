"""A caller's mistake raises an exception of its own, in a sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from overlay.errors import UsageError
from pubsub import Parameters
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
