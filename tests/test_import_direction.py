"""Imports point down only, and protocol cores touch neither I/O nor clocks nor global randomness."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FORBIDDEN = {"overlay": {"pubsub", "bench"}, "pubsub": {"bench"}, "bench": set()}
IMPURE = {"asyncio", "socket", "time", "random", "asyncio_dgram", "uvloop", "secrets", "os"}
CORES = [
    "overlay/channel/config.py",
    "overlay/channel/core.py",
    "overlay/channel/machine.py",
    "overlay/channel/packet.py",
    "overlay/channel/receiving.py",
    "overlay/channel/recovery.py",
    "overlay/channel/buffer.py",
    "overlay/channel/sending.py",
    "overlay/channel/table.py",
    "overlay/context.py",
    "overlay/dht/config.py",
    "overlay/dht/disjoint.py",
    "overlay/dht/exchange.py",
    "overlay/dht/lookup.py",
    "overlay/dht/messages.py",
    "overlay/dht/node.py",
    "overlay/dht/round_trips.py",
    "overlay/dht/routing.py",
    "overlay/dht/shortlist.py",
    "overlay/dht/trust.py",
    "overlay/dht/upkeep.py",
    "overlay/dht/upstream.py",
    "overlay/dht/values.py",
    "overlay/directory",
    "overlay/failure/detector.py",
    "overlay/failure/probes.py",
    "overlay/limited_msgpack.py",
    "overlay/session",
    "overlay/steps.py",
    "overlay/transport/address.py",
    "overlay/transport/frame.py",
    "overlay/wire.py",
    "pubsub/archive/protocol",
    "pubsub/archive/profiles.py",
    "pubsub/archive/store/log_index.py",
    "pubsub/archive/store/segment.py",
    "pubsub/archive/store/registry.py",
    "pubsub/archive/store/retention.py",
    "pubsub/broadcast/events.py",
    "pubsub/broadcast/kernel.py",
    "pubsub/broadcast/links.py",
    "pubsub/broadcast/log.py",
    "pubsub/broadcast/majority.py",
    "pubsub/broadcast/order.py",
    "pubsub/broadcast/probabilistic.py",
    "pubsub/broadcast/process.py",
    "pubsub/broadcast/reliable.py",
    "pubsub/broadcast/stacks.py",
    "pubsub/camcast",
    "pubsub/gate.py",
    "pubsub/rights.py",
    "pubsub/servers.py",
    "pubsub/distributors/config.py",
    "pubsub/distributors/messages.py",
    "pubsub/distributors/protocol",
    "pubsub/collections/content.py",
    "pubsub/collections/content.py",
    "pubsub/collections/messages.py",
    "pubsub/collections/one_of_n",
    "pubsub/collections/config.py",
    "pubsub/collections/total_order.py",
    "pubsub/collections/wanted.py",
    "pubsub/doors/mqtt/authentication.py",
    "pubsub/doors/mqtt/connection.py",
    "pubsub/doors/mqtt/deadlines.py",
    "pubsub/doors/mqtt/entering.py",
    "pubsub/doors/mqtt/filters.py",
    "pubsub/doors/mqtt/greeting.py",
    "pubsub/doors/mqtt/other_doors.py",
    "pubsub/doors/mqtt/wills.py",
    "pubsub/doors/mqtt/hub.py",
    "pubsub/doors/mqtt/kept.py",
    "pubsub/doors/mqtt/message.py",
    "pubsub/doors/mqtt/network.py",
    "pubsub/doors/mqtt/packets.py",
    "pubsub/doors/mqtt/properties.py",
    "pubsub/doors/mqtt/publishing.py",
    "pubsub/doors/mqtt/session.py",
    "pubsub/doors/wsrm/sequences.py",
    "pubsub/doors/wsrm/soap.py",
    "pubsub/event.py",
    "pubsub/filters",
    "pubsub/reliable/numbers.py",
    "pubsub/reliable/order.py",
    "pubsub/reliable/primary.py",
    "pubsub/reliable/runs.py",
    "pubsub/reliable/stability.py",
    "pubsub/reliable/window.py",
    "pubsub/files/manifest.py",
    "pubsub/files/exchange.py",
    "pubsub/topic.py",
    "pubsub/topics/acknowledging.py",
    "pubsub/topics/aside.py",
    "pubsub/topics/broadcast.py",
    "pubsub/topics/config.py",
    "pubsub/topics/context.py",
    "pubsub/topics/delivering.py",
    "pubsub/topics/forwarding.py",
    "pubsub/topics/knowledge.py",
    "pubsub/topics/log.py",
    "pubsub/topics/membership.py",
    "pubsub/topics/messages.py",
    "pubsub/topics/spreading.py",
    "pubsub/topics/state.py",
    "pubsub/topics/upkeep.py",
    "pubsub/topics/views.py",
    "overlay/membership",
]
"""Files and folders that hold protocol cores."""


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def core_files() -> list[Path]:
    files: list[Path] = []
    for core in CORES:
        path = ROOT / core
        assert path.exists(), f"{core} is listed as a core and is not there"
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return files


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_import_downwards_only(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        upward = imported(path) & FORBIDDEN[package]
        assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}"


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_cores_are_pure(path: Path) -> None:
    impure = imported(path) & IMPURE
    assert not impure, f"{path.relative_to(ROOT)} imports {sorted(impure)}"


def test_the_publish_subscribe_part_does_without_spark() -> None:
    assert "pyspark" not in loaded_by("from pubsub import Archive, Group, Node\nimport overlay")


def loaded_by(code: str) -> set[str]:
    """Which of this project's modules, and of Spark's, a new process has loaded after running `code`."""
    import subprocess
    import sys

    show = "import sys; print(*[name for name in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = ("overlay", "pubsub", "bench", "pyspark")
    return {name for name in out.stdout.split() if name.partition(".")[0] in ours}


def test_a_service_is_loaded_when_it_is_first_used() -> None:
    assert loaded_by("import pubsub") <= {"pubsub"}
    loaded = loaded_by("from pubsub import Node")
    services = (
        "pubsub.archive.store",
        "pubsub.broadcast.group",
        "pubsub.distributors",
        "pubsub.files",
    )
    services += ("pubsub.collections", "pubsub.filters", "pubsub.archive.durability")
    assert not loaded & set(services)
    assert len(loaded) < 120


def test_every_public_name_of_pubsub_is_where_its_table_says() -> None:
    import pubsub

    tree = ast.parse(Path(pubsub.__file__).read_text())
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == pubsub._HOMES
    assert sorted(pubsub.__all__) == sorted(typed)
    for name in pubsub.__all__:
        assert getattr(pubsub, name).__name__ == name


def test_help_loads_no_command() -> None:
    code = "import pubsub.cli, contextlib, io\n"
    code += "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
    code += "    pubsub.cli.main(['--help'])"
    assert loaded_by(code) <= {
        "overlay",
        "overlay.errors",
        "pubsub",
        "pubsub.cli",
        "bench",
        "bench.cli",
    }
