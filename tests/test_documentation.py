"""The examples that a reader is shown run as they are printed, each a whole program.

Each block of `python` in the README and in docs/ runs by itself, in an empty directory, beside a node at
127.0.0.1:4000 that publishes now and then, as the examples expect one: on a virtual network of its own, or,
where it serves programs that are not peers, on this machine's. Blocks of `py` are no programs: `FRAGMENTS`
says why, and they are only compiled. An example that goes on for ever is cut off after a while; one that
prints must have printed by then. An error is fine if the example names it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.suites.grid import read_suite
from overlay import loops
from overlay.session import new_key
from overlay.virtual import Network
from pubsub import Node
from pubsub.cli import parser_for
from pubsub.cli.options import with_file
from pubsub.doors.http import HttpDoor
from tests.browser import BROWSER, browse

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FRAGMENTS = {
    "architecture": "they show the shape of a protocol core",
    "spark": "they need Spark, and an object store; tests/bench/spark runs such programs",
    "topic-broadcast": "it shows a part that a node is made of",
}
"""Pages whose blocks of `py` are only compiled, and why."""

LONG_ENOUGH = 60.0
RANKS_OF_A_GROUP = 3
HERE = "127.0.0.1:4000"
REAL = ("pubsub.doors.", "import connect")
"""What needs real sockets, or threads."""


def examples(kind: str, real: bool = False) -> Iterator[Any]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text()), 1):
            is_real = any(one in text for one in REAL) and "message_in" not in text
            if found == kind and is_real == real:
                yield pytest.param(text, id=f"{page.stem}:{number}")


def compiled(text: str) -> CodeType:
    return compile(text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def run(text: str) -> None:
    outcome = eval(compiled(text), {"__name__": "__main__"})
    if inspect.iscoroutine(outcome):
        await outcome


async def publish_now_and_then(node: Node) -> None:
    while True:
        await node.publish("/soccer/italy", {"score": "1-0"})
        await asyncio.sleep(5)


def a_key_file() -> bytes:
    key = new_key()
    Path("network.key").write_text(f"{key.hex()}\n")
    return key


async def beside_a_node(text: str, listen: str = HERE) -> None:
    keys = [a_key_file()] if "network.key" in text else []
    async with Node(listen=listen, keys=keys) as node:
        publishing = asyncio.create_task(publish_now_and_then(node))
        try:
            await run(text.replace(HERE, str(node.address)))
        finally:
            publishing.cancel()


def of_rank(text: str, rank: int) -> str:
    return text.replace("rank=0", f"rank={rank}").replace("member-0", f"member-{rank}")


async def show(text: str) -> None:
    try:
        async with asyncio.timeout(LONG_ENOUGH):
            if "rank=0" in text:
                await asyncio.gather(*(run(of_rank(text, one)) for one in range(RANKS_OF_A_GROUP)))
            elif f'listen="{HERE}"' in text:
                await run(text)
            else:
                await beside_a_node(text)
    except TimeoutError:
        pass
    except Exception as error:
        if type(error).__name__ not in text:
            raise


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", list(examples("python")))
def test_an_example_runs_as_it_is_printed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "Network(" in text:
        eval(compiled(text), {})
    else:
        Network(seed=1).run(show(text))
    assert "print(" not in text or capsys.readouterr().out


@pytest.mark.parametrize("text", list(examples("python", real=True)))
def test_an_example_of_a_door_runs_as_it_is_printed(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        if "await" not in text and "async" not in text:
            await asyncio.to_thread(exec, text, {})
        elif f'listen="{HERE}"' in text:
            await run(text.replace(HERE, "127.0.0.1:0"))
        else:
            await beside_a_node(text, "127.0.0.1:0")

    loops.run(asyncio.wait_for(main(), LONG_ENOUGH))
    assert capsys.readouterr().out


@pytest.mark.parametrize("text", [*examples("py"), *examples("py", real=True)])
def test_a_fragment_is_python(text: str) -> None:
    assert compiled(text)


def test_fragments_are_the_exception() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {page.stem for page in pages if "\n```py\n" in page.read_text()}
    assert found == set(FRAGMENTS)


def blocks(kind: str) -> Iterator[Any]:
    for page in sorted((ROOT / "docs").glob("*.md")):
        found = re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        yield from (pytest.param(text, id=page.stem) for text in found)


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_a_file_of_settings_is_understood(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    if "[[grid]]" in text:
        assert len(read_suite(file)) > 0
    else:
        words = ["node", "--config", str(file)]
        assert with_file(parser_for(words).parse_args(words)).settings


@pytest.mark.sweep
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("text", list(blocks("html")))
def test_a_web_page_shows_what_it_publishes(text: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Node() as node, HttpDoor(node, "127.0.0.1:0", origins=["*"]) as door:
            page = text.replace("127.0.0.1:8080", str(door.address))

            async def answer(request: web.Request) -> web.Response:
                return web.Response(text=f"<body>{page}</body>", content_type="text/html")

            app = web.Application()
            app.router.add_get("/", answer)
            async with (
                TestServer(app) as server,
                browse(str(server.make_url("/")), tmp_path / "profile") as shown,
            ):
                await shown.until("""document.body?.innerText.includes('{"score":"1-0"}')""")

    loops.run(asyncio.wait_for(main(), LONG_ENOUGH))


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
