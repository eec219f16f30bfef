"""What strangers publish is written as one line, whatever it is."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from overlay.contact import PeerId
from pubsub.cli import via_distributors
from pubsub.cli.terminal import as_json, plain
from pubsub.distributors import ServiceMessage
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.event import Event, Origin


def event(data: Any) -> Event:
    return Event(Origin("/a", PeerId(bytes(20)), bytes(8), 2), data, 1)


@pytest.mark.parametrize(
    ("data", "written"),
    [
        ({"x": b"\x01"}, {"x": "01"}),
        ({b"k": 1, 5: [None, True]}, {"6b": 1, "5": [None, True]}),
        ([{b"k": {b"\xff": math.inf}}], [{"6b": {"ff": "Infinity"}}]),
        ([math.nan, -math.inf, 1.5], ["NaN", "-Infinity", 1.5]),
        ({b"k": 1, "6b": 2, 6: 3}, [["6b", 1], ["6b", 2], [6, 3]]),
    ],
)
def test_any_data_is_written_as_json(data: Any, written: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(as_json(event(data)), parse_constant=refuse)["data"] == written
    assert json.loads(plain(event(data)).removeprefix("/a  "), parse_constant=refuse) == written


def test_a_message_of_a_service_is_written_alike() -> None:
    message = ServiceMessage("ticker", {b"k": math.nan}, PeerId(bytes(20)), bytes(8), 7)
    fields = json.loads(via_distributors._json(message))
    assert (fields["data"], fields["publisher"]) == ({"6b": "NaN"}, "00" * 20)
    assert via_distributors._plain(message) == 'ticker  {"6b": "NaN"}'


def test_a_message_of_an_mqtt_client_is_shown_as_its_payload() -> None:
    for payload, shown in [(b'{"a": 1}', {"a": 1}), (b"warm", "warm"), (b"\xff", "ff")]:
        data = MqttMessage("a", payload).to_data()
        assert json.loads(as_json(event(data)))["data"] == shown


def test_plain_text_is_one_line_that_does_nothing_to_the_terminal() -> None:
    assert plain(event("Zürich")) == "/a  Zürich"
    assert plain(event("\x1b[2J1\n2\u009b")) == r"/a  \x1b[2J1\n2\x9b"
    assert plain(event(["\u009b"])) == r'/a  ["\x9b"]'


def test_json_is_ascii_that_any_pipe_carries() -> None:
    assert as_json(event("Zürich")).isascii()
