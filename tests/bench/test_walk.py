"""The path of an event is short, and docs/architecture.md names its files."""

from __future__ import annotations

from pathlib import Path

from overlay import loops
from tests.walk import walk_of_an_event

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_an_event_passes_few_files_and_the_map_has_them_all() -> None:
    walk = loops.run(walk_of_an_event())
    assert walk.publish[0] == "pubsub/node.py"
    assert walk.publish[-1] == "overlay/transport/udp.py"
    assert "pubsub/subscription.py" in walk.receive[-3:]
    assert len(walk.publish) <= 20
    assert walk.turns <= 2
    text = ARCHITECTURE.read_text()
    assert f"within {walk.turns} turns of the event loop" in text
    assert f"through {len(walk.publish)} files" in text
    for file in {*walk.publish, *walk.receive}:
        parts = file.removesuffix(".py").split("/")
        assert parts[-1] in text or f"{parts[-2]}/" in text, f"{file} is not on the map"
