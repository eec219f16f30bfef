"""Options: where they may stand, and the file that takes them by the same names."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pubsub.cli import main, parser_for
from pubsub.cli.options import node_config, with_file
from pubsub.config import ConfigurationError

A, B = "127.0.0.1:4000", "127.0.0.1:4001"
COMMANDS = {
    "node": [],
    "archive": [],
    "distributor": [],
    "publish": ["/soccer", "1-0"],
    "subscribe": ["/soccer"],
    "send": ["match.mp4", "/videos"],
    "receive": ["/videos", "downloads"],
}
"""Those that run a node, with what they need."""
WITH_A_FILE = {**COMMANDS, "hand-over": ["/soccer"], "group": []}
"""Those that take a file; what these two need besides may stand in it."""


def parsed(*words: str) -> argparse.Namespace:
    return with_file(parser_for(words).parse_args(words))


def test_a_configuration_file_takes_the_same_names_and_the_command_line_wins(
    tmp_path: Path,
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        """
        listen = "127.0.0.1:4000"
        mode = "unstructured"
        links = "datagram"
        [gateways]
        "/soccer" = ["127.0.0.1:4001"]
        [parameters]
        c = 4
        [topics."/soccer"]
        g = 9
        """
    )
    config = node_config(parsed("node", "--config", str(file), "--links", "channel"))
    assert (config.listen, config.mode, config.links) == (
        "127.0.0.1:4000",
        "unstructured",
        "channel",
    )
    assert config.gateways == {"/soccer": ("127.0.0.1:4001",)}
    soccer = config.parameters_of("/soccer")
    assert (soccer.c, soccer.g, config.parameters_of("/chess").c) == (4, 9, 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mode = ", "is not valid TOML"),
        ("colour = 1", "no setting 'colour'"),
        ("[parameters]\nq = 1", "no setting 'q'"),
        ("[parameters]\nc = -1", "c must be"),
        ("subscribe = 5", "subscribe must be a list of texts, not 5"),
        ("subscribe = [5]", "subscribe must be a list of texts, not 5"),
        ('json = "yes"', "json must be true or false, not 'yes'"),
        ("metrics = 9100", "metrics must be text, not 9100"),
        ("key-file = 5", "key_file must be the path of a file, not 5"),
        ('key-file = "a"\nkey_file = "b"', "sets key_file twice"),
        ("gateway = 5", "gateway must be a list of TOPIC=ADDRESS, not 5"),
        ('gateway = ["/soccer"]', "write TOPIC=ADDRESS"),
        ('gateway = ["/a=127.0.0.1:1"]\n[gateways]', "two ways to say the same"),
    ],
)
def test_a_wrong_configuration_file_is_said_to_be(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        node_config(parsed("node", "--config", str(file)))


def in_a_file(option: argparse.Action) -> Any:
    """A value that the option may have, and that is not its default."""
    if option.choices is not None:
        return list(option.choices)[-1]
    if option.nargs == 0:
        return True
    if option.type is not None:
        return 7
    return ["some"] if getattr(option, "many", False) else "some"


@pytest.mark.parametrize("command", WITH_A_FILE)
def test_every_option_of_a_command_may_stand_in_a_file(command: str, tmp_path: Path) -> None:
    options = parser_for([command]).parse_args([command, *WITH_A_FILE[command]]).options
    values = {option.dest: in_a_file(option) for option in options}
    file = tmp_path / "settings.toml"
    file.write_text(
        "".join(f"{name.replace('_', '-')} = {json.dumps(v)}\n" for name, v in values.items())
    )
    arguments = parsed(command, *WITH_A_FILE[command], "--config", str(file))
    assert {name: getattr(arguments, name) for name in values} == values


def test_an_option_on_the_command_line_wins_though_it_says_the_default(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('store = "file:///events"\nmax-count = 5\ntopic = ["/chess"]')
    words = ("--store", "sqlite:///events.db", "--topic", "/a", "--topic", "/b")
    for order in ((*words, "--config", str(file)), ("--config", str(file), *words)):
        arguments = parsed("archive", *order)
        assert (arguments.store, arguments.max_count) == ("sqlite:///events.db", 5)
        assert arguments.topic == ["/a", "/b"]


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("subscribe", 'count = "x"', "count must be a number, not 'x'"),
        ("subscribe", "count = 1.5", "count cannot be 1.5"),
        ("subscribe", 'order = "none at all"', 'order is "none" or "fifo", not \'none at all\''),
        ("send", 'subscribe = ["/a"]', "no setting 'subscribe'"),
    ],
)
def test_a_wrong_value_of_an_option_in_a_file_is_one_sentence(
    command: str, text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert main([command, *COMMANDS[command], "--config", str(file)]) == 1
    errors = capsys.readouterr().err
    assert words in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_options_may_stand_before_what_a_command_needs_and_be_repeated(command: str) -> None:
    needed = COMMANDS[command]
    for words in (
        ("--bootstrap", A, "--bootstrap", B, *needed),
        (*needed, "--bootstrap", A, "--bootstrap", B),
    ):
        arguments = parsed(command, *words)
        assert node_config(arguments).bootstrap == (A, B)
        assert set(needed) <= {value for value in vars(arguments).values() if type(value) is str}


def test_lists_of_services_and_distributors_may_stand_before_the_service() -> None:
    arguments = parsed("publish", "--distributors", A, "--distributors", B, "ticker", "1")
    assert (arguments.distributors, arguments.topic, arguments.data) == ([A, B], "ticker", "1")


def test_a_command_that_needs_nothing_else_takes_several_values_at_once() -> None:
    arguments = parsed("node", "--bootstrap", A, B, "--subscribe", "/a", "/b", "--subscribe", "/c")
    assert (arguments.bootstrap, arguments.subscribe) == ([A, B], ["/a", "/b", "/c"])


def test_gateways_may_be_named_on_the_command_line_and_win(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('mode = "unstructured"\n[gateways]\n"/chess" = ["127.0.0.1:1"]')
    gateways = ("--gateway", f"/soccer={A}", "--gateway", f"/soccer={B}", "--gateway", f"/a=b={A}")
    config = node_config(parsed("publish", *gateways, "/soccer", "--config", str(file)))
    assert config.gateways == {"/soccer": (A, B), "/a=b": (A,)}
    file.write_text(f'mode = "unstructured"\ngateway = ["/soccer={A}"]')
    assert node_config(parsed("node", "--config", str(file))).gateways == {"/soccer": (A,)}


def test_a_gateway_without_an_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--mode", "unstructured", "--gateway", "/soccer"]) == 1
    assert "write TOPIC=ADDRESS, as in /soccer=127.0.0.1:4000" in capsys.readouterr().err
