"""Counters: counting, reading as a dict, and the Prometheus text format."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import UsageError
from overlay.metrics import Metrics

SAMPLE = re.compile(r'camcast_[a-z][a-z0-9_]*(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"\})? (\S+)')


def test_asking_twice_for_a_name_gives_the_same_counter() -> None:
    metrics = Metrics()
    metrics.counter("sent", "Sent").add(2)
    metrics.counter("sent", "Sent").add()
    metrics.family("dropped", "reason", "Dropped").add("late", 3)
    metrics.family("dropped", "reason", "Dropped").add("early")
    metrics.gauge("size", "Size", lambda: 1.5)
    metrics.gauge("size", "Size", lambda: 2.5)
    assert metrics.as_dict() == {"sent": 3, "dropped": {"early": 1, "late": 3}, "size": 2.5}
    family = metrics.family("dropped", "reason", "Dropped")
    assert (family["late"], family["never"], family.total) == (3, 0, 4)


def test_the_dict_is_a_copy() -> None:
    metrics = Metrics()
    dropped = metrics.as_dict()
    family = metrics.family("dropped", "reason", "Dropped")
    family.add("late")
    read = metrics.as_dict()["dropped"]
    assert isinstance(read, dict)
    read["late"] = 99
    assert family["late"] == 1
    assert dropped == {}


def test_the_prometheus_text_has_help_type_and_value() -> None:
    metrics = Metrics()
    metrics.counter("sent", "Sent").add(7)
    metrics.family("dropped", "reason", "Dropped").add("late", 2)
    metrics.gauge("size", "Size", lambda: 123456789.0)
    assert metrics.prometheus() == (
        "# HELP camcast_sent_total Sent\n"
        "# TYPE camcast_sent_total counter\n"
        "camcast_sent_total 7\n"
        "# HELP camcast_dropped_total Dropped\n"
        "# TYPE camcast_dropped_total counter\n"
        'camcast_dropped_total{reason="late"} 2\n'
        "# HELP camcast_size Size\n"
        "# TYPE camcast_size gauge\n"
        "camcast_size 123456789.0\n"
    )
    assert Metrics().prometheus() == ""


@given(st.text(), st.text(), st.floats())
def test_whatever_the_texts_are_the_format_stays_readable(
    help: str, label: str, value: float
) -> None:
    metrics = Metrics()
    metrics.family("dropped", "reason", help).add(label)
    metrics.gauge("size", help, lambda: value)
    lines = metrics.prometheus().removesuffix("\n").split("\n")
    assert len(lines) == 6
    for line in lines:
        assert line.startswith("# ") or SAMPLE.fullmatch(line), line


def test_texts_are_escaped() -> None:
    metrics = Metrics()
    metrics.family("dropped", "reason", 'a "help"\nwith \\').add('a "label"\nwith \\')
    head, _, sample, _ = metrics.prometheus().split("\n")
    assert head == r'# HELP camcast_dropped_total a "help"\nwith \\'
    assert sample == r'camcast_dropped_total{reason="a \"label\"\nwith \\"} 1'


@pytest.mark.parametrize("name", ["", "Sent", "sent-bytes", "1st", "sent{}", "sent\n"])
def test_names_that_prometheus_does_not_read_are_refused(name: str) -> None:
    metrics = Metrics()
    for make in (
        lambda: metrics.counter(name, ""),
        lambda: metrics.family(name, "reason", ""),
        lambda: metrics.family("dropped", name, ""),
        lambda: metrics.gauge(name, "", lambda: 0.0),
    ):
        with pytest.raises(UsageError):
            make()
    assert metrics.as_dict() == {}


def test_one_name_is_one_kind_of_metric() -> None:
    metrics = Metrics()
    metrics.counter("sent", "")
    with pytest.raises(UsageError, match="sent"):
        metrics.family("sent", "kind", "")
    with pytest.raises(UsageError, match="sent"):
        metrics.gauge("sent", "", lambda: 0.0)
    metrics.family("dropped", "reason", "")
    with pytest.raises(UsageError, match="reason"):
        metrics.family("dropped", "kind", "")
