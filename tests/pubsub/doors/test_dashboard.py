"""The dashboard in a real browser with real nodes, and `camcast top`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from overlay import loops
from pubsub import Archive, Node
from pubsub.cli.dashboard import lines_of
from pubsub.doors.dashboard import Dashboard
from pubsub.doors.http import HttpDoor
from pubsub.reports import CensusConfig
from tests.browser import BROWSER, Page, browse
from tests.pubsub.command_process import camcast, line

SHOTS = Path(os.environ["CAMCAST_SCREENSHOTS"]) if "CAMCAST_SCREENSHOTS" in os.environ else None
"""A directory: where pictures of the page are put, for people to look at."""


async def shoot(page: Page, name: str) -> None:
    if SHOTS is not None:
        (SHOTS / f"{name}.png").write_bytes(await page.screenshot())


@asynccontextmanager
async def a_network(tmp_path: Path) -> AsyncIterator[tuple[list[Node], Dashboard]]:
    """Nodes with subscriptions, an archive, one that publishes for ever, and a dashboard."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        nodes = [await enter(Node())]
        bootstrap = [str(nodes[0].address)]
        nodes += [await enter(Node(bootstrap=bootstrap)) for _ in range(6)]
        for node in nodes[:4]:
            await enter(node.subscribe("/soccer"))
        for node in nodes[3:6]:
            await enter(node.subscribe("/soccer/italy"))
        await enter(nodes[5].subscribe("/weather/<b>rome</b>"))
        store = f"sqlite:///{tmp_path}/events.db"
        await enter(Archive(["/soccer"], store, bootstrap=bootstrap))

        async def publish() -> None:
            for number in range(100_000):
                await nodes[6].publish("/soccer/italy", {"score": f"{number}-0"})
                await asyncio.sleep(0.05)

        publishing = asyncio.create_task(publish())
        stack.callback(publishing.cancel)
        census = CensusConfig(refresh=0.3, patience=3.0)
        yield nodes, await enter(Dashboard(nodes[0], "127.0.0.1:0", census=census))


@pytest.mark.sweep
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_a_reader_sees_the_network_follows_a_topic_and_publishes_with_the_keyboard(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            a_network(tmp_path) as (nodes, dashboard),
            browse(f"http://{dashboard.address}/", tmp_path / "profile") as page,
        ):
            await page.emulate(1500, 900, "light")
            await page.until("document.querySelectorAll('#nodes tr').length == 8")
            tree = "[...document.querySelectorAll('#tree li')].map((one) => one.dataset.topic)"
            assert await page.value(tree) == [
                "/soccer",
                "/soccer/italy",
                "/weather",
                "/weather/<b>rome<",
                "/weather/<b>rome</b>",
            ]
            row = "document.querySelector('#tree li[data-topic=\"/soccer/italy\"]').children"
            await page.until(f"Math.abs(Number({row}[2].textContent) - 19) < 12")
            assert await page.value(f"{row}[1].textContent") == "4"
            nodes_text = "document.getElementById('nodes').textContent"
            assert "archive of /soccer" in await page.value(nodes_text)
            # The tree by keyboard: filter, into the tree, down, choose.
            await page.press("/", "")
            await page.type("soccer")
            await page.until("document.querySelectorAll('#tree li').length == 2")
            await page.press("ArrowDown")
            await page.until("document.activeElement.dataset.topic == '/soccer'")
            await page.press("ArrowDown")
            await page.press("Enter")
            title = "document.getElementById('topic-title').textContent"
            await page.until(f"{title} == '/soccer/italy'")
            await page.until("document.querySelectorAll('#graph circle').length >= 4")
            await page.until("document.querySelectorAll('#graph line.above').length > 0")
            await page.until("document.querySelectorAll('#graph line.route').length >= 3")
            route = "document.getElementById('route').textContent"
            await page.until(f"/Event \\d+.* from .*hop 1: /.test({route})")
            await page.press("f")
            await page.until("document.querySelectorAll('#events li').length >= 3")
            await page.until("/\\d hop/.test(document.querySelector('#events li').textContent)")
            await shoot(page, "light")
            # Publishing, with data that would be markup if it were trusted.
            await page.value("document.getElementById('publish-data').focus()")
            async with nodes[1].subscribe("/soccer/italy") as events:
                await page.type('"<img src=x onerror=alert(1)>"')
                await page.press("Enter", "\r")
                shown = "document.getElementById('published').textContent"
                await page.until(f"{shown} == 'published to /soccer/italy'")
                async for event in events:
                    if event.data == "<img src=x onerror=alert(1)>":
                        break
            events_text = "document.getElementById('events').textContent"
            await page.until(f"{events_text}.includes('<img src=x')")
            assert await page.value("document.querySelectorAll('#events img').length") == 0
            # One node goes: the page says so.
            await nodes[2].close()
            await page.until("document.querySelectorAll('#nodes tr').length == 7")
            await page.until("document.querySelectorAll('#alerts li').length > 0")
            dark = "getComputedStyle(document.body).backgroundColor"
            before = await page.value(dark)
            await page.value("document.activeElement.blur()")
            await page.press("t")
            assert await page.value(dark) != before
            await page.emulate(420, 900, "dark")
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not await page.value(wide)
            await shoot(page, "narrow")
            await page.emulate(1500, 900, "dark")
            await shoot(page, "dark")
            assert page.complaints == []

    loops.run(asyncio.wait_for(main(), 120))


def test_pages_of_elsewhere_and_readers_without_a_token_are_refused() -> None:
    async def main() -> None:
        async with (
            Node() as node,
            Dashboard(node, "127.0.0.1:0", tokens=["secret"]) as dashboard,
            HttpDoor(node, "127.0.0.1:0") as door,
            aiohttp.ClientSession() as session,
        ):
            at = f"http://{dashboard.address}"
            for path, status in (
                ("/", 200),
                ("/dashboard.js", 200),
                ("/network.json", 401),
                ("/network.json?token=secret", 200),
                ("/topics/soccer", 401),
            ):
                async with session.get(at + path) as answer:
                    assert answer.status == status, path
                    if path == "/":
                        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
            url = f"http://{door.address}/topics/soccer"
            for origin, status in (("http://evil.example", 403), (f"http://{door.address}", 201)):
                async with session.post(url, data="1", headers={"Origin": origin}) as answer:
                    assert answer.status == status, origin
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(url, origin="http://evil.example")

    loops.run(asyncio.wait_for(main(), 60))


def test_top_and_the_dashboard_are_commands() -> None:
    with camcast("node", "--subscribe", "/soccer", "--json") as node:
        address = json.loads(line(node))["listening"]
        page = ("dashboard", "--http", "127.0.0.1:0", "--json")
        with (
            camcast("top", "--bootstrap", address, "--count", "1", "--json") as top,
            camcast(*page, "--bootstrap", address) as dashboard,
        ):
            assert json.loads(line(dashboard))["dashboard"].startswith("http://127.0.0.1:")
            out, errors = top.communicate(timeout=60)
            assert top.returncode == 0, errors
    shown = json.loads(out)
    assert len(shown["nodes"]) >= 2
    assert shown["communities"]["/soccer"]["members"][0]["subscriptions"] == 1
    text = lines_of(shown)
    assert f"{len(shown['nodes'])} nodes, 1 communities" in text[0]
    assert any(one.startswith("/soccer ") for one in text)
