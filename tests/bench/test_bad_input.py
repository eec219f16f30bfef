"""Whatever is wrong with the input is one sentence that names it, and exit code 1."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pubsub.cli import main


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["bench", *arguments]) == 1
    text = capsys.readouterr().err.strip()
    assert text.startswith("camcast: ")
    assert "\n" not in text
    return text


def test_an_unknown_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no suite 'nope': there are quick, paper" in sentence(capsys, "run", "nope")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("this is = = no TOML", "is not TOML"),
        ("about = 'nothing'", r"has no [[grid]] table"),
        ("[[grid]]\nsizes = [[10]]", "a grid needs a tier"),
        ("[[grid]]\ntier = 'model'\ncolour = 'red'", "no such field of an experiment: colour"),
        ("[[grid]]\ntier = 'model'\nfailed = 2", "failed is a share in [0, 1), not 2"),
    ],
)
def test_a_bad_suite_file(
    text: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text(text)
    said = sentence(capsys, "run", str(suite), "--out", str(tmp_path / "out"))
    assert wrong in said
    assert "mine.toml" in said


def test_a_figure_that_a_suite_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And so is `--only` listened to: a suite is cut down before anything starts."""
    said = sentence(capsys, "run", "quick", "--only", "figure-99", "--out", str(tmp_path))
    assert "suite quick has no figure 'figure-99'" in said


def test_a_suite_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read the suite nowhere.toml" in sentence(capsys, "run", "nowhere.toml")


def test_a_master_that_does_not_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # held and not listening: nobody else can answer there
        master = f"spark://127.0.0.1:{held.getsockname()[1]}"
        said = sentence(capsys, "run", "quick", "--master", master, "--out", str(tmp_path / "out"))
    assert f"the master {master} does not answer" in said


def test_a_master_that_accepts_and_stays_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.spark.start.MASTER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        said = sentence(capsys, "run", "quick", "--master", master, "--out", str(tmp_path / "out"))
    assert f"the master {master} does not answer" in said


def test_an_output_directory_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no directory nowhere" in sentence(capsys, "report", "--out", "nowhere")


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("t.jsonl", "nonsense", "t.jsonl, line 1, is not JSON"),
        ("t.jsonl", '{"time": 1}', "t.jsonl, line 1, has no time, node, kind and topic"),
        ("t.parquet", "nonsense", "t.parquet is not a trace: it is not Parquet"),
    ],
)
def test_a_file_that_is_no_trace(
    name: str, text: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert wrong in sentence(capsys, "analyze", str(tmp_path / name))


def test_a_trace_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.jsonl cannot be read" in sentence(capsys, "analyze", "nowhere.jsonl")
