"""An option that would do nothing is refused, with what it needs; none is passed over in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pubsub import distributors
from pubsub.cli import main
from pubsub.distributors import Subscriber

A, B = "127.0.0.1:9", "127.0.0.1:10"
VIA = ("--via", "distributors", "--distributors", A)
NOT_OFFERED = "goes with --via overlay: distributors do not offer it"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence with which the command refuses."""
    assert main(words) == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    return sentence.removeprefix("camcast: ")


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is so before anything is opened."""

    def run(*_: Any, **settings: Any) -> None:
        raise AssertionError(f"the command goes on with {settings}")

    monkeypatch.setattr("pubsub.node.Node.__aenter__", run)
    monkeypatch.setattr(distributors, "Subscriber", run)
    monkeypatch.setattr(distributors, "Publisher", run)
    monkeypatch.setattr("pubsub.cli.distributor.Distributor", run)


@pytest.mark.parametrize(
    "words",
    [
        ("--durable", "me"),
        ("--durable", "me", "--since", "beginning", "--where", "x = 1"),
        ("--since", "beginning"),
        ("--where", "x = 1"),
        ("--delivery", "optimistic"),
        ("--order", "fifo"),
        ("--trace", "trace.jsonl"),
        ("--mode", "structured"),
        ("--links", "datagram"),
        ("--gateway", f"/a={A}"),
        ("--signatures",),
    ],
)
def test_what_distributors_do_not_offer_a_subscriber(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "subscribe", "ticker", *VIA, *words) == f"{words[0]} {NOT_OFFERED}"


@pytest.mark.parametrize("words", [("--durable", "--copies", "3"), ("--copies", "3")])
def test_what_distributors_do_not_offer_a_publisher(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "publish", "ticker", "1", *VIA, *words) == f"{words[0]} {NOT_OFFERED}"


@pytest.mark.parametrize("words", [("--no-gap",), ("--group", "other"), ("--distributors", A)])
def test_what_only_distributors_offer(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "subscribe", "/a", *words) == f"{words[0]} goes with --via distributors"


@pytest.mark.parametrize("words", [("--group", "other"), ("--bootstrap", B)])
def test_distributors_are_found_in_one_way(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refused(capsys, "subscribe", "ticker", *VIA, *words)
    assert sentence == f"{words[0]} does not go with --distributors, which says where they are"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("subscribe /a --durable me --order fifo", "--order does not go with --durable: see"),
        ("send f /a --durable --receivers 3", "--receivers does not go with --durable: it ends"),
        ("send f /a --copies 3", "--copies goes with --durable"),
        ("send f /a --deadline 3", "--deadline goes with --durable"),
        ("distributor --archive-size 5", "--archive-size goes with --archive"),
    ],
)
def test_what_goes_with_an_archive_or_without_one(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *command.split()).startswith(sentence)


@pytest.mark.parametrize(
    ("command", "text", "sentence"),
    [
        (("publish", "ticker", "1", *VIA), "durable = true", f"--durable {NOT_OFFERED}"),
        (("subscribe", "ticker", *VIA), 'durable = "me"', f"--durable {NOT_OFFERED}"),
        (("subscribe", "ticker", *VIA), "signatures = true", f"--signatures {NOT_OFFERED}"),
        (
            ("subscribe", "ticker", "--durable", "me"),
            'via = "distributors"',
            f"--durable {NOT_OFFERED}",
        ),
        (("publish", "/a", "1"), "copies = 3", "--copies goes with --durable"),
        (("subscribe", "/a"), "no-gap = true", "--no-gap goes with --via distributors"),
    ],
)
def test_a_file_says_nothing_useless_either(
    command: tuple[str, ...],
    text: str,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert refused(capsys, *command, "--config", str(file)) == sentence


def test_what_a_file_says_of_a_node_reaches_a_light_client_as_far_as_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest, which is for other commands, and options that the file leaves as they are, harm nobody."""
    file = tmp_path / "settings.toml"
    file.write_text(
        f"""
        datagram-size = 1234
        join-timeout = 7
        bootstrap = ["{B}"]
        trace = "trace.jsonl"
        links = "datagram"
        order = "none"
        no-gap = true
        [parameters]
        c = 4
        [durability]
        buffer = 5
        """
    )
    made: list[Subscriber] = []

    class Stop(Exception):
        pass

    def make(**settings: Any) -> Subscriber:
        made.append(Subscriber(**settings))
        raise Stop

    monkeypatch.setattr(distributors, "Subscriber", make)
    with pytest.raises(Stop):
        main(["subscribe", "ticker", *VIA, "--config", str(file)])
    assert made[0]._network.datagram_size == 1234
    assert made[0]._connect_timeout == 7
    assert [str(address) for address in made[0]._addresses] == [A]
