"""What an operator looks at: health, metrics of every command, logs, and the dashboard for Grafana."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from overlay.contact import Address
from overlay.metrics import Metrics
from pubsub import Archive, Node
from pubsub.cli.terminal import set_up_logs
from pubsub.doors.http import HttpDoor
from pubsub.doors.mqtt import MqttDoor
from pubsub.status_server import StatusServer
from tests.pubsub.command_process import camcast, line

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana.json"


class Sick:
    """A process that says it is not well."""

    def __init__(self, *problems: str) -> None:
        self.metrics = Metrics()
        self._problems = list(problems)

    def status(self) -> dict[str, Any]:
        return {}

    def problems(self) -> list[str]:
        return self._problems


async def health(process: Any) -> tuple[int, Any]:
    def ask() -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(f"http://{server.address}/health", timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    async with StatusServer(process, Address("127.0.0.1", 0)) as server:
        return await asyncio.to_thread(ask)


def test_health_is_200_or_503_with_the_problems() -> None:
    async def main() -> None:
        assert await health(Sick()) == (200, {"healthy": True, "problems": []})
        code, body = await health(Sick("the disk is full"))
        assert (code, body["problems"]) == (503, ["the disk is full"])
        async with Node() as first:
            assert await health(first) == (200, {"healthy": True, "problems": []})
            async with Node(bootstrap=[str(first.address)]) as second, second.subscribe("/a"):
                assert second.problems() == []
        assert first.problems() == ["the node is not running"]

    asyncio.run(main())


def test_every_command_that_runs_serves_its_metrics() -> None:
    with ExitStack() as stack:
        running = [
            stack.enter_context(camcast(*words, "--metrics", "127.0.0.1:0", "--json"))
            for words in (("subscribe", "/soccer"), ("receive", "/files", "."), ("top",))
        ]
        for process in running:
            url = json.loads(line(process))["status"]
            for path in ("metrics", "health", "status"):
                with urllib.request.urlopen(url.replace("status", path), timeout=10) as answer:
                    assert answer.status == 200


def test_every_metric_and_label_of_the_grafana_dashboard_exists(tmp_path: Path) -> None:
    async def main() -> Metrics:
        store = f"sqlite:///{tmp_path}/events.db"
        async with Archive(["/soccer"], store) as archive:
            node = archive.node
            async with MqttDoor(node, "127.0.0.1:0"), HttpDoor(node, "127.0.0.1:0"):
                return node.metrics

    metrics = asyncio.run(main())
    known = set(re.findall(r"^# TYPE (\S+)", metrics.prometheus(), re.MULTILINE))
    dashboard = json.loads(GRAFANA.read_text())
    used: set[str] = set()
    for target in (target for panel in dashboard["panels"] for target in panel["targets"]):
        (name,) = re.findall(r"camcast_\w+", target["expr"])
        used.add(name)
        by = re.findall(r"sum by \((\w+)\)", target["expr"]) or ["instance"]
        if by != ["instance"]:  # which Prometheus adds
            metrics.family(name.removeprefix("camcast_").removesuffix("_total"), by[0], "")
        assert re.findall(r"{{(\w+)}}", target["legendFormat"]) == by
    assert len(used) > 10
    assert used <= known


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_is_one_line_for_each_thing(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    try:
        set_up_logs(argparse.Namespace(log_format=form, log_level="info"))
        logging.getLogger("pubsub.x").info("lost %s", "a\x1b[2J peer")
        logging.getLogger("kademlia.crawling").warning("upstream speaks")
        logging.getLogger("pubsub.x").debug("not told")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    if form == "json":
        told = json.loads(lines[0])
        assert (told["level"], told["logger"]) == ("info", "pubsub.x")
        assert told["message"] == "lost a\x1b[2J peer"
        assert told["time"].endswith("+00:00")
    else:
        assert lines[0].startswith("info: lost a")
        assert "\x1b" not in lines[0]
