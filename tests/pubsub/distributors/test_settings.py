"""A distributor takes the settings of a node that mean something to it, and refuses the others by name."""

from __future__ import annotations

from typing import Any

import pytest

from overlay.errors import NetworkError, UsageError
from overlay.identity import Identity
from pubsub import DurableConfig
from pubsub.camcast.parameters import Parameters
from pubsub.cli import main
from pubsub.config import NodeConfig
from pubsub.distributors import Distributor, Publisher
from tests.pubsub.distributors.test_on_the_virtual_network import Playground, play

TOPICS = {"football": "/soccer"}
OF_EVENTS: list[dict[str, Any]] = [
    {"mode": "semi-structured"},
    {"links": "datagram"},
    {"signatures": True},
    {"parameters": Parameters(c=9)},
    {"topic_parameters": {"/soccer": Parameters(c=9)}},
]


@pytest.mark.parametrize("setting", OF_EVENTS)
def test_settings_of_events_need_a_topic_that_feeds_a_service(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(UsageError, match=f"^{name} has no effect on a distributor without topics"):
        Distributor(["ticker"], **setting)
    node = Distributor(topics=TOPICS, **setting)._node
    assert getattr(node.config, name) == setting[name]


@pytest.mark.parametrize("topics", [{}, TOPICS])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"trace": "events.jsonl"}, "trace has no effect on a distributor"),
        ({"dissemination": "eager"}, "dissemination has no effect on a distributor"),
        ({"durability": DurableConfig(window=7)}, "durability has no effect on a distributor"),
        ({"mode": "unstructured"}, 'mode "unstructured" has no DHT'),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_settings_that_never_have_an_effect_are_refused(
    setting: dict[str, Any], words: str, topics: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match=words):
        Distributor(["ticker"], topics=topics, **setting)


def test_settings_of_any_node_and_the_usual_ones_are_taken() -> None:
    usual = NodeConfig()
    written_out = {name: getattr(usual, name) for name in NodeConfig.__dataclass_fields__}
    assert Distributor(["ticker"], **written_out)._node.config == usual
    Distributor(["ticker"], identity=Identity.create(), datagram_size=1200, keys=(bytes(32),))


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (["--trace", "events.jsonl"], "trace"),
        (["--mode", "unstructured"], "mode"),
        (["--mode", "semi-structured"], "mode"),
        (["--links", "datagram"], "links"),
        (["--signatures"], "signatures"),
    ],
)
def test_the_command_refuses_them_in_one_sentence(
    option: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["distributor", "--service", "ticker", *option]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"camcast: {name} ")
    assert len(errors.splitlines()) == 1


def test_topics_and_a_group_above_take_no_socket_more(seed: int) -> None:
    async def main(ground: Playground) -> None:
        await ground.distributors(1, services=["ticker"])
        with ground.network.capture() as packets:
            await ground.distributors(
                1, services=["ticker"], group="lower", upstream="main", topics=TOPICS
            )
        assert {packet.source[1] for packet in packets} == {4000}

    play(seed, main)


def test_joining_takes_no_longer_than_it_may(seed: int) -> None:
    async def main(ground: Playground) -> None:
        ground.first = "127.9.9.9:4000"
        with pytest.raises(NetworkError, match=r"127.9.9.9:4000 answered within 0.5 s"):
            await ground.enter(Distributor, join_timeout=0.5)

    play(seed, main)


def test_a_publisher_on_a_distributors_node_is_refused() -> None:
    async def main(ground: Playground) -> None:
        (distributor,) = await ground.distributors(1)
        with pytest.raises(UsageError, match="a distributor runs on this node"):
            await Publisher(node=distributor.node).__aenter__()

    play(1, main)
