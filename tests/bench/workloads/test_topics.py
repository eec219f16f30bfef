"""The measurement of topic broadcast measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads import topics
from bench.workloads.topics import measure_matrix, messages_for, run_on_sockets, run_virtual
from bench.workloads.workload import Values
from pubsub.cli import main


def test_the_reliable_broadcast_delivers_all_and_the_other_loses_a_hundredth() -> None:
    found = run_virtual(4, 200)
    reliable, weak = plain(found["reliable"]), plain(found["best-effort"])
    assert reliable["delivered"] == 1.0
    assert reliable["duplicates"] < 0.05
    assert reliable["datagrams"] > 1
    assert 0.95 < weak["delivered"] < 1.0
    assert weak["rate"] > reliable["rate"]
    assert run_virtual(2, 20) == run_virtual(2, 20), "the same seed gives the same figures"


def plain(values: Values) -> dict[str, float]:
    return {metric: value for metric, (value, _) in values.items()}


def test_it_runs_on_sockets_too() -> None:
    found = run_on_sockets(3, 50)
    assert plain(found["reliable"])["delivered"] == 1.0
    assert plain(found["best-effort"])["delivered"] > 0


def test_the_cost_of_the_matrix_grows_with_events_and_not_with_time() -> None:
    rest, joins, crashes = map(plain, measure_matrix(8).values())
    assert rest["messages"] < 2
    assert rest["kilobytes"] < 0.1
    assert joins["messages"] > rest["messages"]
    assert crashes["kilobytes"] > rest["kilobytes"]
    assert joins["stable after"] < 10


def test_the_command_prints_tables_and_draws_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MOST", 50)
    asked = ["bench", "topics", "--participants", "2", "3", "--networks", "virtual"]
    assert main([*asked, "--matrix", "5", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.split()
    assert "reliable" in printed
    assert "joins" in printed
    assert sorted(path.name for path in (tmp_path / "speed").iterdir()) == [
        "topic-delivered.svg",
        "topic-throughput.svg",
        "topics.jsonl",
    ]
    for name in ("topic-delivered.svg", "topic-throughput.svg"):
        figure = (tmp_path / "speed" / name).read_text()
        assert figure.startswith("<svg")
        assert 'data-label="reliable"' in figure
        assert 'data-label="best-effort"' in figure
    assert main(["bench", "topics", "--participants", "1", "--out", str(tmp_path)]) == 1


def test_larger_topics_publish_fewer_messages() -> None:
    assert [messages_for(number) for number in (2, 12, 1000)] == [2000, 1000, 100]
