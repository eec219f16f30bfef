"""The five hosts of docs/operating.md, in network namespaces, as they are printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.test_documented_commands import ROOT, commands_in

PAGE = (ROOT / "docs" / "operating.md").read_text()
SECTION = PAGE[PAGE.index("## Five hosts") :]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(name: str, count: int) -> Iterator[None]:
    """Namespaces `name`1, `name`2... at one switch, with the addresses of the page."""
    with ExitStack() as stack:

        def add(namespace: str) -> None:
            ip("netns", "add", namespace)
            stack.callback(ip, "netns", "del", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")

        switch = f"{name}0"
        add(switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for number in range(1, count + 1):
            host = f"{name}{number}"
            add(host)
            ends = ["netns", switch, "type", "veth", "peer", "name", "eth0", "netns", host]
            ip("link", "add", f"v{number}", *ends)
            ip("-n", switch, "link", "set", f"v{number}", "master", "br0", "up")
            ip("-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", host, "addr", "add", f"fd77::{number}/64", "dev", "eth0", "nodad")
            ip("-n", host, "link", "set", "eth0", "up")
        yield


def can_run() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nft"))):
        return False
    try:
        with hosts(f"try{os.getpid()}x", 1):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False


@pytest.mark.sweep
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_five_hosts_work_as_they_are_printed(family: str, tmp_path: Path) -> None:
    if not can_run():
        pytest.skip("network namespaces need root, ip and nft")
    text = SECTION.replace("/etc/camcast", str(tmp_path))
    if family == "IPv6":
        text = re.sub(r"10\.77\.0\.(\d)", r"[fd77::\1]", text).replace("0.0.0.0", "[::]")
    blocks = dict(re.findall(r"^```(toml|nft)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    (tmp_path / "network.toml").write_text(blocks["toml"])
    name = f"cc{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(host: int, words: list[str]) -> list[str]:
        own = [word.replace("/var/lib/camcast", str(tmp_path / str(host))) for word in words]
        return ["ip", "netns", "exec", f"{name}{host}", sys.executable, "-m", "pubsub.cli", *own]

    def finish(host: int, *words: str) -> str:
        done = subprocess.run(
            command(host, list(words)),
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout

    with hosts(name, 5), ExitStack() as stack:
        (tmp_path / "network.key").write_text(finish(1, "key", "new"))
        running = []
        for host, words in enumerate([one for one in commands_in(text) if "--advertise" in one], 1):
            (tmp_path / str(host)).mkdir()
            rules = ["ip", "netns", "exec", f"{name}{host}", "nft", "-f", "-"]
            subprocess.run(rules, input=blocks["nft"], text=True, check=True)
            process = subprocess.Popen(
                command(host, words), env=environment, stdout=subprocess.PIPE, text=True
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            running.append(process)
        assert len(running) == 5
        for process in running:
            assert process.stdout is not None
            assert " on " in process.stdout.readline()  # it says where it listens
        config = ["--config", str(tmp_path / "network.toml")]
        finish(5, "publish", "/orders", '{"id": 1}', "--durable", "--copies", "2", *config)
        running[1].kill()  # the host of one archive is gone
        running[1].wait()
        named = ["--durable", "desk", "--since", "beginning", "--count", "1"]
        assert '{"id": 1}' in finish(4, "subscribe", "/orders", *named, *config)
