"""A field that every event carries is added in `pubsub/event.py` and nowhere else.

Another process reads that file with a field more in it, and the rest of the project as it is: what a
publisher says in the field comes to subscribers, by way of the community and out of an archive's bytes.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path

import pytest

EVENT = Path(__file__).parents[2] / "pubsub" / "event.py"
EDITS = (
    ("class Head(NamedTuple):", '    trace: bytes = b""\n', '    colour: str = "none"\n'),
    ("class Origin(NamedTuple):", '    trace: bytes = b""\n', '    colour: str = "none"\n'),
    ("class Block:", '        "trace",\n', '        "colour",\n'),
    ("class Block:", "        trace: bytes,\n", "        colour: str,\n"),
    ("class Block:", "        self.trace = trace\n", "        self.colour = colour\n"),
    ("def batch(", "hops, signed, self.trace", ", self.colour"),
    ("def _fields(", "hops, signed, _", ", _colour"),
    ("def _check_head(", "topic, lineage, upward, eager, trace", ", colour"),
    ("def _check_head(", "type(trace) is not bytes", " or type(colour) is not str"),
    ("def _check_head(", "return Head(topic, lineage, upward, eager, trace", ", colour"),
)
"""Where, what is there, and what is put behind it."""


class WithOneFieldMore(SourceFileLoader):
    """Reads `pubsub.event` with the field."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name == "pubsub.event" else None

    def get_code(self, name: str) -> object:  # type: ignore[override]
        text = EVENT.read_text().replace('b"\\x95" + packed', 'b"\\x96" + packed')
        for where, what, more in EDITS:
            place = text.index(what, text.index(where)) + len(what)
            text = text[:place] + more + text[place:]
        return compile(text, str(EVENT), "exec")


def publish_in_colour() -> None:
    sys.meta_path.insert(0, WithOneFieldMore("pubsub.event", str(EVENT)))

    from overlay.virtual import Network
    from pubsub import Node
    from pubsub.archive.protocol.archived_event import Received, pack_event
    from pubsub.event import Block, Event

    async def main() -> tuple[Event, Block]:
        async with (
            Node(listen="127.0.0.2:1") as one,
            one.subscribe("/a") as events,
            Node(listen="127.0.0.3:1", bootstrap=["127.0.0.2:1"]) as other,
        ):
            await other.publish("/a", 1)
            await anext(events)
            outlet = other._outlets["/a"]
            outlet._head = outlet._head._replace(colour="red")  # type: ignore[call-arg]
            receipt = await other.publish("/a", 2)
            return await anext(events), receipt._block.block

    event, block = Network(1).run(main())
    assert (event.data, event.origin.colour) == (2, "red")  # type: ignore[attr-defined]
    packed = pack_event(block.encoded, block.signature)
    origin, _, data = Received(packed).open("/a", lambda block: None, False)
    assert (list(data), origin.colour) == ([2], "red")  # type: ignore[attr-defined]
    print("red")


@pytest.mark.sweep
def test_a_field_is_added_in_one_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pubsub.test_adding_a_field"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["red"], done.stderr


if __name__ == "__main__":
    publish_in_colour()
