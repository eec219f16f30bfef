"""The command line of distributors and their clients."""

from __future__ import annotations

import argparse

import pytest

from overlay.errors import UsageError
from pubsub.cli import parser_for
from pubsub.cli.distributor import read_topics


def parsed(*words: str) -> argparse.Namespace:
    return parser_for(words).parse_args(words)


def test_a_service_may_be_named_with_its_topic() -> None:
    assert read_topics(["football=/soccer", "chess=/chess"]) == {
        "football": "/soccer",
        "chess": "/chess",
    }
    with pytest.raises(UsageError, match="NAME=TOPIC"):
        read_topics(["football"])


def test_the_commands_take_what_the_documentation_says() -> None:
    served = parsed("distributor", "--service", "a", "b", "--group", "eu")
    assert (served.service, served.group, served.upstream) == (["a", "b"], "eu", None)
    taken = parsed("subscribe", "ticker", "--via", "distributors", "--no-gap")
    assert (taken.via, taken.no_gap, taken.topic) == ("distributors", True, "ticker")
    given = parsed("publish", "ticker", "1", "--via", "distributors")
    assert (given.via, given.data) == ("distributors", "1")
    plain = parsed("subscribe", "/soccer")
    assert plain.via == "overlay"
