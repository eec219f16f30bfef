"""The interoperability tests of the Paho project, as they are, against a door.

git clone https://github.com/eclipse/paho.mqtt.testing
PAHO_TESTING=paho.mqtt.testing pytest -m sweep tests/pubsub/doors/test_mqtt_paho.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from overlay import loops
from pubsub import Node
from pubsub.doors.mqtt import MqttConfig, MqttDoor

RUN = """
import runpy, sys, unittest
main = unittest.main
unittest.main = lambda: main(argv=sys.argv[:1])  # which knows no port
sys.path.insert(0, "")
runpy.run_path(sys.argv[1], run_name="__main__")
"""
TESTS = Path(os.environ.get("PAHO_TESTING", "")) / "interoperability"


class NoSubscribe:
    """What the tests ask of a server: that nobody may subscribe to one topic."""

    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool:
        return True

    def publish(self, client_id: str, topic: str) -> bool:
        return True

    def subscribe(self, client_id: str, filter: str) -> bool:
        return filter != "test/nosubscribe"


@pytest.mark.sweep
@pytest.mark.skipif("PAHO_TESTING" not in os.environ, reason="PAHO_TESTING names no directory")
@pytest.mark.parametrize("suite", ["client_test.py", "client_test5.py"])
def test_the_interoperability_tests_of_paho_pass(suite: str) -> None:
    config = MqttConfig(longest_keep_alive=60, says_why=False)  # as the tests expect

    async def main() -> None:
        async with (
            Node() as node,
            MqttDoor(node, "127.0.0.1:0", access=NoSubscribe(), config=config) as door,
        ):
            assert door.address is not None
            tests = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", RUN, suite, "-p", str(door.address.port)),
                cwd=TESTS,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await tests.communicate()
            assert tests.returncode == 0, said.decode()[-8000:]
            print(said.decode()[-200:])

    loops.run(asyncio.wait_for(main(), 500))
