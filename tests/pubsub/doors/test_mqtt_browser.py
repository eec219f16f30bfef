"""mqtt.js, unmodified, in a browser: over WebSocket, with every QoS, in both versions."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from overlay import loops
from pubsub import Node
from pubsub.doors.mqtt import Answer, MqttDoor
from tests.browser import BROWSER, browse

INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "mqtt@5")

SCRIPT = """
const client = mqtt.connect("ws://%s/mqtt", {protocolVersion: %d, clientId: "page"});
window.got = [];
client.on("message", (topic, payload) => window.got.push(topic + " " + payload));
client.subscribe("page/#", {qos: 2}, async (error) => {
  window.granted = !error;
  for (const qos of [0, 1, 2]) await client.publishAsync("page/" + qos, "from the page", {qos});
});
true
"""

AUTHENTICATE = """
const client = mqtt.connect("ws://%s/mqtt", {
  protocolVersion: 5, clientId: "page", reconnectPeriod: 0,
  properties: {authenticationMethod: "BACKWARDS", authenticationData: "begin"},
});
client.handleAuth = (packet, then) => {
  const data = packet.properties.authenticationData.toString().split("").reverse().join("");
  const properties = {authenticationMethod: "BACKWARDS", authenticationData: %s};
  then(null, {cmd: "auth", reasonCode: 0x18, properties});
};
client.on("connect", (packet) => { window.result = packet.properties.authenticationData.toString(); });
client.on("error", (error) => { window.result = "code " + error.code; });
true
"""


class Backwards:
    """An authenticator, and its exchanges: a client has to say backwards what it is told."""

    def begin(self, client_id: str, method: str) -> Backwards | None:
        return self if method == "BACKWARDS" else None

    def step(self, data: bytes) -> Answer | None:
        if data == b"begin":
            return Answer(b"abc", False)
        return Answer(b"welcome", True) if data == b"cba" else None


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the library, as npm has it."""
    if shutil.which("npm") is None:
        pytest.skip("mqtt.js is installed by npm, which is not on this machine")
    directory: Path = tmp_path_factory.mktemp("npm")
    installed = subprocess.run(INSTALL, cwd=directory, capture_output=True, timeout=120)
    found = directory / "node_modules" / "mqtt" / "dist" / "mqtt.min.js"
    if installed.returncode or not found.exists():
        pytest.skip(f"npm could not install mqtt.js: {installed.stderr.decode()[-200:]}")
    return found.read_text()


def site(library: str) -> web.Application:
    """A page that has the library; a browser lets no page of elsewhere talk to this machine."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text='<script src="/mqtt.js"></script>', content_type="text/html")

    async def script(request: web.Request) -> web.Response:
        return web.Response(text=library, content_type="text/javascript")

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/mqtt.js", script)])
    return app


@pytest.mark.sweep
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("version", [4, 5])
def test_a_web_page_publishes_and_is_subscribed(tmp_path: Path, library: str, version: int) -> None:
    async def main() -> None:
        async with (
            Node() as node,
            MqttDoor(node, websocket="127.0.0.1:0", origins=["*"]) as door,
            TestServer(site(library)) as server,
            browse(str(server.make_url("/")), tmp_path / "profile") as page,
        ):
            await page.until("window.mqtt")
            await page.value(SCRIPT % (door.websocket_address, version))
            await page.until("window.granted && window.got.length === 3")
            await node.publish("/page/python", "from a node")
            await page.until("window.got.length === 4")
            got = json.loads(await page.value("JSON.stringify(window.got)"))
            assert sorted(got) == [
                *(f"page/{qos} from the page" for qos in (0, 1, 2)),
                "page/python from a node",
            ]

    loops.run(asyncio.wait_for(main(), 120))


@pytest.mark.sweep
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize(("said", "result"), [("data", "welcome"), ('"abc"', "code 135")])
def test_a_web_page_is_asked_who_it_is(
    tmp_path: Path, library: str, said: str, result: str
) -> None:
    async def main() -> None:
        async with (
            Node() as node,
            MqttDoor(
                node, websocket="127.0.0.1:0", origins=["*"], authenticator=Backwards()
            ) as door,
            TestServer(site(library)) as server,
            browse(str(server.make_url("/")), tmp_path / "profile") as page,
        ):
            await page.until("window.mqtt")
            await page.value(AUTHENTICATE % (door.websocket_address, said))
            await page.until("window.result")
            assert await page.value("window.result") == result

    loops.run(asyncio.wait_for(main(), 120))
