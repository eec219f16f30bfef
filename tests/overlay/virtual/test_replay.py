"""A failure under pytest shows the seed of its network and a line that replays it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FAILING = """
import pytest
from overlay.virtual import Network

async def main(): ...

def test_fails_after_its_run():
    for seed in (3, 4, 5):
        net = Network(seed)
        net.run(main())
        assert net.seed != 5

async def broken():
    raise ValueError("broken")

def test_fails_within_its_run():
    Network(11).run(broken())

def test_asks_for_a_seed(seed):
    Network(seed).run(main())
    assert False

def test_without_a_network():
    assert False
"""


def pytest_run(tmp_path: Path, **environment: str) -> str:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING)
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", file],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment,
        capture_output=True,
        text=True,
    )
    return finished.stdout


def replay_lines(output: str) -> list[tuple[str, str]]:
    return re.findall(r"replay: CAMCAST_SEED=(\d+) python -m pytest '.*::(\w+)'", output)


def test_every_failure_shows_its_seed_and_the_line_that_replays_it(tmp_path: Path) -> None:
    output = pytest_run(tmp_path)
    lines = replay_lines(output)
    assert lines[:2] == [("5", "test_fails_after_its_run"), ("11", "test_fails_within_its_run")]
    assert [test for _, test in lines[2:]] == ["test_asks_for_a_seed"]
    assert "networks before it had the seeds [3, 4]" in output
    assert "virtual network: seed 11, at 0.000000 s" in output
    assert "4 failed" in output


def test_a_replay_gives_every_network_the_seed(tmp_path: Path) -> None:
    output = pytest_run(tmp_path, CAMCAST_SEED="5")
    assert [seed for seed, _ in replay_lines(output)] == ["5", "5", "5"]
    assert "networks before it" not in output
