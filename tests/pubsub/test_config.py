"""Settings of a wrong type are refused when they are given, by name and with what is wanted."""

from __future__ import annotations

import asyncio
import inspect
import json
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from overlay.channel import ChannelConfig
from overlay.dht import DhtConfig
from overlay.errors import UsageError
from overlay.identity import Identity
from pubsub import DurableConfig, Node
from pubsub.camcast.parameters import Parameters
from pubsub.config import PRESETS, ConfigurationError, NodeConfig, NodeSettings
from pubsub.config_file import config_from, with_assignments


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listen = 4000", "listen must be an address such as .*, not 4000"),
        ('listen = "nowhere"', "listen: 'nowhere' is not an address"),
        ("advertise = true", "advertise must be an address such as .*, not True"),
        ("bootstrap = 5", "bootstrap must be a list of addresses, not 5"),
        ("bootstrap = [5]", "bootstrap must be an address such as .*, not 5"),
        ('bootstrap = ["nowhere"]', "bootstrap: 'nowhere' is not an address"),
        ('join_timeout = "x"', "join_timeout must be a number of seconds, not 'x'"),
        ("join_timeout = true", "join_timeout must be a number of seconds, not True"),
        ('datagram_size = "x"', "datagram_size must be a whole number of bytes, not 'x'"),
        ("datagram_size = 1400.5", "datagram_size must be a whole number of bytes, not 1400.5"),
        ('gateways = ["127.0.0.1:1"]', "gateways must be lists of addresses by topic, not"),
        ('[gateways]\n"/a" = 3', "gateways of /a must be a list of addresses, not 3"),
        ("topics = 3", "topics must be a table, not 3"),
        ('[topics]\n"/a" = 3', "topics./a must be a table, not 3"),
        ('[topics."/a"]\nc = -1', "topics./a: c must be 0 or more, not -1"),
        ("parameters = 5", "parameters must be a table, not 5"),
        ("identity = 5", "identity must be the path of a file, not 5"),
        ("key_file = 5", "key_file must be the path of a file, not 5"),
        ("trace = 5", "trace must be the path of a file, not 5"),
        ('trace = "a\\u0000b"', "trace must be the path of a file, not"),
        ('signatures = "no"', "signatures must be true or false, not 'no'"),
        ("insecure = 1", "insecure must be true or false, not 1"),
        ("durability = 5", "durability must be a table, not 5"),
        (
            "[durability]\nbufer = 5",
            r"durability: there is no setting 'bufer'; did you mean 'buffer'\?",
        ),
        ("[durability]\nbuffer = 0", "durability: buffer=0 must be at least 1"),
        ('[durability]\nretry = "x"', "durability: retry must be a number, not 'x'"),
        (
            "[dht]\nverify_id = true",
            r"dht: there is no setting 'verify_id'; did you mean 'verify_ids'\?",
        ),
        ("[dht]\nverify_ids = 1", "dht: verify_ids must be true or false, not 1"),
        ("[dht]\nk = 0", "dht: k=0 is not within"),
        ("[membership.scamp]\npatience = 0", "membership.scamp: patience must be 1 or more"),
        ("[membership]\nscamp = 5", "membership.scamp must be a table, not 5"),
        ('preset = "moon"', 'preset is "local" or "lan" or "wan", not'),
        ("lissten = 5", r"there is no setting 'lissten'; did you mean 'listen'\?"),
        ("[durability]\nwindow = 1.5", "durability: window must be a whole number, not 1.5"),
    ],
)
def test_a_setting_of_a_wrong_type_in_a_file_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        config_from(tomllib.loads(text))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listen": 4000}, "listen must be an address such as .*, not 4000"),
        ({"parameters": {"c": 1}}, "parameters must be Parameters, not {'c': 1}"),
        ({"identity": "x"}, "identity must be an Identity, not 'x'"),
        ({"topic_parameters": {"/a": 3}}, "topic_parameters of /a must be Parameters, not 3"),
        ({"topic_parameters": [1]}, "topic_parameters must be Parameters by topic"),
        ({"durability": {"buffer": 5}}, "durability must be a DurableConfig, not {'buffer': 5}"),
        ({"signatures": "no"}, "signatures must be true or false"),
        ({"dht": {"k": 3}}, "dht must be a DhtConfig, not"),
        ({"boot": []}, r"there is no setting 'boot'; did you mean 'bootstrap'\?"),
        ({"datagram_size": 10}, r"datagram_size=10 is not within 512\.\."),
        ({"trace": 5}, "trace must be the path of a file, not 5"),
        ({"keys": bytes(32)}, "keys must be a list of network keys, 32 bytes each, not bytes"),
        ({"keys": ["secret"]}, "a network key is 32 bytes"),
    ],
)
def test_a_setting_of_a_wrong_type_is_refused_before_the_node_starts(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        Node(**settings)


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    identity = Identity.create()
    config = Node(
        listen="127.0.0.1:0",
        bootstrap=["127.0.0.1:4000"],
        keys=[bytes(32)],
        identity=identity,
        topic_parameters={"/a": Parameters(c=1)},
        trace=tmp_path / "trace.jsonl",
        datagram_size=1200,
        join_timeout=5,
        durability=DurableConfig(buffer=20),
    ).config
    assert (config.bootstrap, config.keys) == (("127.0.0.1:4000",), (bytes(32),))
    assert (config.identity, config.join_timeout, config.parameters_of("/a").c) == (identity, 5, 1)
    assert config.durability.buffer == 20


def test_a_file_has_the_times_and_bounds_of_durable_delivery_in_a_table() -> None:
    config = config_from(tomllib.loads("[durability]\nretry = 1\nbuffer = 20"))
    assert config.durability == DurableConfig(retry=1, buffer=20)


def test_the_keywords_of_a_node_are_the_fields_of_its_configuration() -> None:
    assert list(get_type_hints(NodeSettings)) == [f.name for f in fields(NodeConfig)]
    assert list(inspect.signature(Node).parameters) == [f.name for f in fields(NodeConfig)]


def test_every_field_of_every_layer_can_be_set_in_a_file_by_its_name() -> None:
    for preset, usual in PRESETS.items():
        lines = [f'preset = "{preset}"', *_tables(usual)]
        config = config_from(tomllib.loads("\n".join(lines)))
        assert config.layers == usual
        assert config.dht == usual.dht


def _tables(config: Any, where: str = "") -> Iterator[str]:
    """The configuration as TOML, but for what is None."""
    values = {f.name: getattr(config, f.name) for f in fields(config)}
    if where:
        yield f"[{where}]"
    for name, value in values.items():
        if value is not None and not is_dataclass(value):
            yield f"{name} = {json.dumps(value)}"
    for name, value in values.items():
        if is_dataclass(value):
            yield from _tables(value, f"{where}.{name}".lstrip("."))


def test_a_table_changes_what_it_names_and_leaves_the_rest_as_the_preset_says() -> None:
    config = config_from(tomllib.loads('preset = "wan"\n[channel]\nmin_rto = 0.3'))
    assert config.layers.channel == replace(PRESETS["wan"].channel, min_rto=0.3)
    assert config.layers.failure == PRESETS["wan"].failure


def test_an_assignment_sets_what_a_file_does() -> None:
    given = {"dht": {"k": 10}, "parameters": {"c": 3}}
    settings = with_assignments(
        given,
        [
            "dht.verify_ids=true",
            "dht.k=8",
            'topics."/a".c=7',
            "listen=127.0.0.1:4000",
            "preset=wan",
        ],
    )
    config = config_from(settings)
    assert (config.layers.dht.k, config.layers.dht.verify_ids) == (8, True)
    assert (config.parameters_of("/a").c, config.parameters.c) == (7, 3)
    assert (config.listen, config.preset) == ("127.0.0.1:4000", "wan")
    for wrong in ("dht.k", "=3", "a b=3"):
        with pytest.raises(ConfigurationError, match="--set"):
            with_assignments({}, [wrong])


def test_the_layers_of_a_node_run_with_what_it_was_given() -> None:
    async def main() -> None:
        async with Node(
            dht=DhtConfig(k=7, join_attempts=None), channel=ChannelConfig(idle_after=7.0)
        ) as node:
            runtime = node.attachment.runtime
            assert runtime.channels.config.idle_after == 7.0
        assert node.config.layers.dht.k == 7

    asyncio.run(main())
