"""`camcast archive`, `publish --durable` and `subscribe --durable`, as a user runs them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from overlay.errors import UsageError
from pubsub.cli import main
from pubsub.cli.durable import begin
from tests.pubsub.command_process import camcast, line


def test_the_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["archive", "--help"])
    assert "example: camcast archive" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["archive", "--topic", "/t", "--store", "shelf:///t"], "is not a store"),
        (["archive", "--topic", "t", "--store", "memory:"], "begin with a slash"),
        (["subscribe", "/t", "--durable", "me", "--since", "yesterday"], "is neither now nor"),
        (["publish", "/t", "x", "--durable", "--deadline", "0.5"], "no archive of /t"),
        (["publish", "/t", "x", "--copies", "1"], "--copies goes with --durable"),
        (["publish", "/t", "x", "--deadline", "9"], "--deadline goes with --durable"),
        (["subscribe", "/t", "--where", "x = 1"], "--where goes with --durable"),
        (["subscribe", "/t", "--since", "now"], "--since goes with --durable"),
        (["subscribe", "/t", "--delivery", "ordered"], "--delivery goes with --durable"),
        (["archive", "--store", "memory:"], "nothing to manage"),
        (["archive", "--store", "memory:", "--accept", "t"], "begin with a slash"),
        (["archive", "--topic", "/t", "--operator", "me"], "40 hexadecimal digits"),
        (["archive", "--topic", "/t", "--replay", "x=soon"], "NAME or NAME=SECONDS"),
        (["archive", "--topic", "/t", "--replay", "x", "--no-replay"], "exclude each other"),
    ],
)
def test_what_goes_wrong_is_one_sentence_on_stderr(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    errors = capsys.readouterr().err
    assert words in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "now"),
        ("beginning", "beginning"),
        ("17", 17),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12)),
    ],
)
def test_where_a_subscription_begins_is_read_from_text(text: str, expected: object) -> None:
    assert begin(text) == expected


def test_what_is_no_beginning_is_said() -> None:
    with pytest.raises(UsageError, match="2026-01-31"):
        begin("soon")


def test_an_event_outlives_its_publisher_and_waits_for_its_subscriber(tmp_path: Path) -> None:
    store = f"sqlite:////{tmp_path}/events.db"
    with camcast("archive", "--topic", "/soccer", "--store", store) as archive:
        address = line(archive).removeprefix("listening on ")
        with camcast(
            "publish", "/soccer/italy", "1-0", "--durable", "--json", "--bootstrap", address
        ) as publisher:
            receipt = json.loads(line(publisher))
            assert publisher.wait(60) == 0
        assert receipt["catenation"] == 1
        durable = ("--durable", "me", "--since", "beginning", "--count", "1", "--json")
        with camcast("subscribe", "/soccer", *durable, "--bootstrap", address) as subscriber:
            event = json.loads(line(subscriber))
            assert subscriber.wait(60) == 0
        assert (event["id"], event["data"]) == (receipt["id"], "1-0")
        assert event["catenation"] == 1
        assert event["archived"] > 0
        assert (event["redelivered"], event["missed"]) == (False, 0)


def test_an_archive_takes_several_topics_and_says_who_may_replay(tmp_path: Path) -> None:
    store = f"sqlite:////{tmp_path}/events.db"
    words = ("--topic", "/a", "--topic", "/b", "/c", "--no-replay", "--store", store)
    with camcast("archive", *words) as archive:
        address = line(archive).removeprefix("listening on ")
        for topic in ("/a", "/b", "/c"):
            with camcast("publish", topic, "1", "--durable", "--bootstrap", address) as publisher:
                assert line(publisher).endswith(f"safe as number 1 of {topic}")
        asking = ("--durable", "me", "--since", "1", "--bootstrap", address)
        with camcast("subscribe", "/a", *asking, "--count", "1") as subscriber:
            assert line(subscriber) == "/a  1"  # a minute back is no replay
