"""The command line: exit codes, one sentence for what goes wrong, an example in each help."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pubsub.cli import COMMANDS, main
from pubsub.config_file import config_from
from tests.pubsub.command_process import camcast


@pytest.mark.parametrize("command", [*COMMANDS, "key new", "bench"])
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([*command.split(), "--help"])
    assert leaving.value.code == 0
    assert f"example: camcast {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["subscribe", "soccer", "--listen", "127.0.0.1:0"], "begin with a slash"),
        (["node", "--listen", "nowhere"], "is not an address"),
        (["node", "--subscribe", "soccer"], "begin with a slash"),
        (["node", "--listen", "192.0.2.1:4000"], "camcast key new"),
        (["node", "--config", "/does/not/exist.toml"], "cannot be read: no such file"),
        (["publish", "/a", "1", "--via", "distributors"], "needs --bootstrap HOST:PORT"),
        (["node", "--key-file", "/does/not/exist"], "cannot be read"),
        (["node", "--metrics", ""], "is not an address"),
        (["archive", "--store", "memory:", "--metrics", ""], "is not an address"),
        (["distributor", "--metrics", ""], "is not an address"),
        (["distributor", "--archive", ""], "is not a store"),
        (["publish", "/a", "[" * 5000], "nested too deeply"),
        (["subscribe", "/a", "--durable", ""], "is not a valid name"),
        (["subscribe", "/a", "--durable", "n", "--since", "²"], "is neither now nor"),
        (["subscribe", "/a", "--durable", "n", "--since", "9" * 20], "is neither now nor"),
        (["subscribe", "/a", "--durable", "n", "--since", "0001-01-01"], "is neither now nor"),
        (["subscribe", "/a", "--where", "x = 1"], "--where goes with --durable"),
        (["receive", "/a", "downloads", "--since", "beginning"], "--since goes with --durable"),
        (["group", "-f", os.devnull, "-n", "0"], "--members is needed"),
        (["group", "-f", os.devnull, "--members", "127.0.0.1:1"], "--rank is needed"),
        (["group", "-f", sys.executable, "-n", "0"], "is not valid TOML"),
        (["group", "--members", "127.0.0.1:1", "-n", "0", "--fanout", "2"], "goes with --qos pb"),
        (["hand-over", "/a", "--from", "127.0.0.1:1"], "--to is needed"),
        (["status", "127.0.0.1:9"], "no node answers"),
        (["publish", "/a", "1", "--bootstrap", "example.org:4000"], "as in 127.0.0.1:4000"),
        (["node", "--mqtt", "1883"], "--mqtt: '1883' is not an address: write host:port"),
        (["node", "--http", "8080"], "--http: '8080' is not an address: write host:port"),
        (["node", "--mqtt", "127.0.0.1:0", "--mqtt-durable", "x"], "begin with a slash"),
        (["node", "--mqtt", "127.0.0.1:0", "--tls", "a", "b"], "a cannot be read: no such file"),
        (["node", "--mqtt", "127.0.0.1:0", "--tls", __file__, __file__], "are to be in PEM"),
        (["archive", "--store", "sqlite:////no/dir/e.db"], "cannot be opened: no such file or dir"),
        (["node", "--http", "127.0.0.1:0", "--http-token-file", "/no/file"], "cannot be read"),
        (["archive", "--topic", "/a", "--store", "memory:", "--wsrm", "80"], "write host:port"),
        # Before the network is asked for anything, so within no time of joining it.
        (["publish", "soccer", "1", "--bootstrap", "127.0.0.1:9"], "begin with a slash"),
        (["subscribe", "soccer", "--bootstrap", "127.0.0.1:9"], "begin with a slash"),
        (["send", sys.executable, "soccer", "--bootstrap", "127.0.0.1:9"], "begin with a slash"),
        (["send", "/does/not/exist", "/a", "--bootstrap", "127.0.0.1:9"], "cannot be read"),
        (["receive", "soccer", "x", "--bootstrap", "127.0.0.1:9"], "begin with a slash"),
    ],
)
def test_what_goes_wrong_is_one_sentence_on_stderr_and_a_non_zero_exit(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert not captured.out, "nothing had begun"
    assert len(captured.err.strip().splitlines()) == 1
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "words",
    [
        ["subscribe", "/a", "--count", "0"],
        ["receive", "/a", "downloads", "--count", "-1"],
        ["send", "file", "/a", "--receivers", "x"],
        ["publish", "/a", "1", "--copies", "²"],
        ["distributor", "--buffer", "0"],
        ["distributor", "--archive-size", "9" * 30],
    ],
)
def test_a_number_that_counts_something_is_1_or_more(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 2
    assert f"'{words[-1]}' is not a whole number of 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "camcast: the following arguments are required: COMMAND; see `camcast --help`"),
        (["nod"], "camcast: there is no command 'nod', perhaps node; see `camcast --help`"),
        (["zzz"], "camcast: there is no command 'zzz'; see `camcast --help`"),
        (["key", "newer"], "camcast key: there is no command 'newer'"),
        (["receive", "/a"], "camcast receive: the following arguments are required: directory"),
        (["node", "--mode", "x"], "camcast node: argument --mode: invalid choice: 'x'"),
        (
            ["node", "--nosuch"],
            "camcast node: unrecognized arguments: --nosuch; see `camcast node --help`",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence_that_says_where_to_look(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith(sentence)
    assert len(errors.splitlines()) == 1


def test_a_door_without_its_packages_names_the_extra_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)  # as if it were not there
    assert main(["node", "--http", "127.0.0.1:0"]) == 1
    said = capsys.readouterr()
    assert "pip install 'camcast[doors]'" in said.err
    assert not said.out


def test_a_topic_that_cannot_be_joined_in_time_is_one_sentence_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        """
        mode = "unstructured"
        join_timeout = 0.1
        [gateways]
        "/soccer" = ["127.0.0.1:9"]
        """
    )
    assert main(["node", "--config", str(file), "--subscribe", "/soccer"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("camcast: joining /soccer took more than 0.1 s")
    assert len(errors.splitlines()) == 1


def test_a_new_key_is_one_that_a_node_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "new"]) == 0
    file = tmp_path / "network.key"
    file.write_text(capsys.readouterr().out)
    config = config_from({"key_file": str(file)})
    assert [len(key) for key in config.keys] == [32]


def test_the_demo_draws_who_received_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--mode", "unstructured"]) == 0
    drawn = capsys.readouterr().out
    first = drawn.split("\n\n")[0]
    assert "/italy     ●●●●●●" in first
    assert "/france    ·····" in first
    assert "parasite events: 0" in drawn


def test_a_command_whose_packages_are_not_installed_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.startswith(("bench.spark", "pyspark."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not there
    assert main(["bench", "run", "quick", "--out", str(tmp_path)]) == 1
    assert "pip install 'camcast[bench]'" in capsys.readouterr().err


def test_a_missing_module_that_no_extra_installs_is_a_bug_and_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pubsub.cli.right", None)
    with pytest.raises(ModuleNotFoundError):
        main(["key", "new"])


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("pub", "publish"), ("archive --acc", "--accept"), ("key n", "new")],
)
def test_bash_completes_commands_and_options(
    typed: str, completed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    words = f"COMP_WORDS=(camcast {typed}); COMP_CWORD={len(typed.split())}"
    ask = f'source {script}; {words}; _camcast; echo "${{COMPREPLY[@]}}"'
    found = subprocess.run(["bash", "-c", ask], check=True, capture_output=True, text=True)
    assert found.stdout.split() == [completed]


def test_zsh_completes_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    assert main(["completion", "zsh"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    ask = (  # as zsh's bashcompinit calls the function
        f"autoload -Uz compinit; compinit -u -D; source {script}; setopt ksharrays; "
        "compgen() { print -r -- $2; }; COMP_WORDS=(camcast key n); COMP_CWORD=2; _camcast; "
        'print -r -- "${COMPREPLY[@]}"; which ls'
    )
    found = subprocess.run(["zsh", "-f", "-c", ask], check=True, capture_output=True, text=True)
    assert not found.stderr
    assert "new" in found.stdout.split()


def test_fish_and_zsh_are_told_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == main(["completion", "fish"]) == 0
    printed = capsys.readouterr().out
    assert "bashcompinit" in printed
    assert "complete -c camcast -n '__fish_seen_subcommand_from archive' -l accept" in printed


def test_a_subscriber_that_nobody_can_reach_is_told() -> None:
    with camcast("subscribe", "/soccer") as process:
        assert process.stderr is not None
        assert "--bootstrap HOST:PORT joins a network" in process.stderr.readline()


WHERE_THE_PORT_GOES = {
    "--listen": ["node"],
    "--metrics": ["node"],
    "--mqtt": ["node"],
    "--http": ["dashboard"],
    "--wsrm": ["archive", "--topic", "/a", "--store", "memory:"],
}


@pytest.mark.parametrize("option", WHERE_THE_PORT_GOES)
def test_an_address_that_is_in_use_is_one_sentence(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(type=socket.SOCK_DGRAM if option == "--listen" else socket.SOCK_STREAM) as s:
        s.bind(("127.0.0.1", 0))
        if s.type == socket.SOCK_STREAM:
            s.listen()
        address = f"127.0.0.1:{s.getsockname()[1]}"
        assert main([*WHERE_THE_PORT_GOES[option], option, address]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"on {address}: address already in use; choose another" in said
