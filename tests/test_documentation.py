"""The examples that a reader is shown run as they are printed.

Each block of `python` in the README and in docs/ runs on a virtual network of its own, in an empty
directory, beside a node at 127.0.0.1:4000 that publishes now and then, as the examples expect one; fragments
are marked `py` and only compiled. What an earlier block of the page imported and the constants that it set
are known. An example that goes on for ever is cut off after a while; one that prints must have printed by
then. An error is fine if the example names it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from overlay.virtual import Network
from pubsub import Node

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LONG_ENOUGH = 60.0
RANKS_OF_A_GROUP = 3


@dataclass(frozen=True)
class Example:
    """A block of a page, and what it may take from the blocks before it."""

    text: str
    before: str
    is_fragment: bool = False

    @property
    def code(self) -> CodeType:
        return compile(self.text, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def start(self, names: dict[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Run it, or give what runs it where it awaits something."""
        exec(compile(self.before, "before", "exec"), names)
        outcome = eval(self.code, names)
        return outcome if inspect.iscoroutine(outcome) else None

    async def run(self, names: dict[str, Any]) -> None:
        if (running := self.start(names)) is not None:
            await running

    def of_rank(self, rank: int) -> Example:
        text = self.text.replace("rank=0", f"rank={rank}").replace("member-0", f"member-{rank}")
        return Example(text, self.before)


def imports_and_constants(block: str) -> str:
    """The statements of a block that later blocks of its page rely on."""
    kept = (ast.Import, ast.ImportFrom, ast.Assign)
    chosen = [s for s in ast.parse(block).body if isinstance(s, kept) and not has_call(s)]
    return "\n".join(ast.unparse(statement) for statement in chosen) + "\n"


def has_call(statement: ast.stmt) -> bool:
    return any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(statement))


def examples() -> Iterator[Any]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = ""
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text()), 1):
            example = Example(text, before, is_fragment=kind == "py")
            yield pytest.param(example, id=f"{page.stem}:{number}")
            before += imports_and_constants(text)


async def publish_now_and_then(node: Node) -> None:
    while True:
        await node.publish("/soccer/italy", {"score": "1-0"})
        await asyncio.sleep(5)


async def beside_a_node(example: Example) -> None:
    async with Node(listen="127.0.0.1:4000") as node:
        publishing = asyncio.create_task(publish_now_and_then(node))
        try:
            await example.run({"node": node})
        finally:
            publishing.cancel()


async def show(example: Example) -> None:
    try:
        async with asyncio.timeout(LONG_ENOUGH):
            if "rank=0" in example.text:
                members = [example.of_rank(rank).run({}) for rank in range(RANKS_OF_A_GROUP)]
                await asyncio.gather(*members)
            elif 'listen="127.0.0.1:4000"' in example.text:
                await example.run({})
            else:
                await beside_a_node(example)
    except TimeoutError:
        pass
    except Exception as error:
        if type(error).__name__ not in example.text:
            raise


@pytest.mark.parametrize("example", list(examples()))
def test_an_example_runs_as_it_is_printed(
    example: Example,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main(net: Network) -> None:
        """What the example about the virtual network runs there."""

    if example.is_fragment:
        assert example.code
        return
    if "Network(" in example.text:
        assert example.start({"main": main}) is None
    else:
        Network(seed=1).run(show(example))
    assert "print(" not in example.text or capsys.readouterr().out


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
