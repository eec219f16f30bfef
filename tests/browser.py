"""A headless Chromium that a test steers, by the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""A browser that shows nothing, and asks nobody for anything."""


class Page:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """What the page's scripts threw, or the browser refused to do for them."""

    async def listen(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._waiting.pop(said["id"]).set_result(said)
            elif said["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(said["params"]))

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        said = await asyncio.wait_for(answer, 60)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def value(self, expression: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until a condition holds on the page."""
        waiting = (
            f"new Promise((done) => {{ const end = Date.now() + {1000 * seconds}; const look = () =>"
            f" ({expression}) ? done(true) : Date.now() > end ? done(false) : setTimeout(look, 50);"
            " look(); })"
        )
        answer = await self.ask("Runtime.evaluate", expression=waiting, awaitPromise=True)
        if not answer["result"].get("value"):
            body = await self.value("document.body.innerText")
            pytest.fail(f"not so within {seconds} s: {expression}; {self.complaints}; {body}")

    async def press(self, key: str, text: str = "") -> None:
        codes = {"ArrowDown": 40, "Enter": 13, "Tab": 9, "Home": 36}
        what = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        if text:
            what["text"] = text
        await self.ask("Input.dispatchKeyEvent", type="keyDown", **what)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **what)

    async def type(self, text: str) -> None:
        await self.ask("Input.insertText", text=text)

    async def screenshot(self) -> bytes:
        answer = await self.ask("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def emulate(self, width: int, height: int, scheme: str) -> None:
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.ask("Emulation.setEmulatedMedia", features=features)


@asynccontextmanager
async def browse(url: str, profile: Path) -> AsyncIterator[Page]:
    """The page at this address, in a browser of its own."""
    assert BROWSER is not None
    process = await asyncio.create_subprocess_exec(
        BROWSER,
        *OPTIONS,
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"DevTools listening on" not in (line := await process.stderr.readline()):
                assert line, "the browser has ended"
        port = line.decode().split("//")[1].split("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as ws:
                page = Page(ws)
                listening = asyncio.create_task(page.listen())
                for domain in ("Page", "Runtime", "Log"):
                    await page.ask(f"{domain}.enable")
                await page.ask("Page.navigate", url=url)
                yield page
                listening.cancel()
    finally:
        process.kill()
        await process.wait()
