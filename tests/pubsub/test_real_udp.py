"""Real processes, real UDP: the command line as a user runs it, and what Ctrl-C leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.pubsub.command_process import ROOT, camcast, line


def test_a_node_is_published_to_asked_for_its_status_and_stopped_from_the_keyboard() -> None:
    with camcast("node", "--subscribe", "/soccer", "--json", "--metrics", "127.0.0.1:0") as node:
        address = json.loads(line(node))["listening"]
        status_at = json.loads(line(node))["status"].removeprefix("http://").removesuffix("/status")
        with camcast(
            "publish", "/soccer/italy", '{"score": "1-0"}', "--bootstrap", address, "--json"
        ) as publisher:
            receipt = json.loads(line(publisher))
            assert publisher.wait(30) == 0
        event = json.loads(line(node))
        assert (event["topic"], event["data"]) == ("/soccer/italy", {"score": "1-0"})
        assert (event["id"], receipt["acknowledged"]) == (receipt["id"], 1)
        with camcast("status", status_at, "--json") as asking:
            status = json.loads(line(asking))
            assert list(status["communities"]) == ["/soccer"]
            assert status["counters"]["events_delivered"] == 1
        with camcast("status", status_at) as asking:
            assert asking.wait(30) == 0
        node.send_signal(signal.SIGINT)
        _, errors = node.communicate(timeout=30)
        assert errors == ""
        assert node.returncode == 130


def test_subscribe_ends_after_so_many_events_and_prints_them_plainly() -> None:
    with camcast("node") as node:
        address = line(node).removeprefix("listening on ")
        with camcast("subscribe", "/a/*", "--count", "1", "--bootstrap", address) as subscriber:
            for _ in range(20):  # it may not have joined yet when the first is published
                with camcast("publish", "/a/b", "news", "--bootstrap", address) as publisher:
                    publisher.wait(30)
                if subscriber.poll() is not None:
                    break
            printed, errors = subscriber.communicate(timeout=30)
            assert (printed, errors, subscriber.returncode) == ("/a/b  news\n", "", 0)
        node.send_signal(signal.SIGTERM)
        _, errors = node.communicate(timeout=30)
        assert errors == ""


def test_an_archive_and_a_distributor_print_json_lines_when_asked() -> None:
    keep = ("archive", "--topic", "/a", "--store", "memory:", "--metrics", "127.0.0.1:0", "--json")
    with camcast(*keep) as archive:
        assert json.loads(line(archive))["listening"].startswith("127.0.0.1:")
        assert json.loads(line(archive))["status"].startswith("http://127.0.0.1:")
    with camcast("distributor", "--json") as distributor:
        place = json.loads(line(distributor))
        assert place == {"listening": place["listening"], "group": "main"}
        assert json.loads(line(distributor)) == {"ready": True}
        view = json.loads(line(distributor))
        assert view["distributors"][0].endswith(f"@{place['listening']}")


def test_a_distributor_prints_plain_text_when_not_asked() -> None:
    with camcast("distributor") as distributor:
        address = line(distributor).removeprefix("distributor on ").removesuffix(", group main")
        assert line(distributor) == "ready"
        view = line(distributor)
        assert (view.startswith("view "), view.endswith(f"@{address}")) == (True, True)


def test_a_distributor_is_asked_for_its_metrics_and_its_status() -> None:
    with camcast(
        "distributor", "--service", "ticker", "--metrics", "127.0.0.1:0", "--json"
    ) as distributor:
        line(distributor)
        status_at = json.loads(line(distributor))["status"]
        with urllib.request.urlopen(status_at.replace("/status", "/metrics"), timeout=30) as answer:
            metrics = answer.read().decode().splitlines()
        assert "camcast_distributor_subscribers 0.0" in metrics
        assert "# TYPE camcast_distributor_dropped_total counter" in metrics
        asked = status_at.removeprefix("http://").removesuffix("/status")
        with camcast("status", asked) as asking:
            assert line(asking).startswith("distributor ")
            assert asking.wait(30) == 0


def test_a_node_whose_output_nobody_reads_any_more_ends_without_a_word() -> None:
    with camcast("node", "--subscribe", "/a") as node:
        address = line(node).removeprefix("listening on ")
        assert node.stdout is not None
        node.stdout.close()
        for _ in range(20):  # it may not have joined yet when the first is published
            with camcast("publish", "/a", "news", "--bootstrap", address) as publisher:
                if publisher.wait(60) == 0:
                    break
        assert node.stderr is not None
        assert (node.wait(30), node.stderr.read()) == (0, "")


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["unstructured", "semi-structured", "structured"])
def test_118_nodes_in_four_processes_receive_what_is_published(mode: str, tmp_path: Path) -> None:
    script = Path(__file__).parent / "many_nodes.py"
    result = subprocess.run(
        [sys.executable, "-P", str(script), mode],  # beside it, a package is called collections
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    print(mode, result.stdout.strip())
    for part in json.loads(result.stdout)["reliability"].values():
        assert part >= 0.9
