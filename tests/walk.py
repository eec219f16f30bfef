"""Which files of this project an event passes: `python -m tests.walk`.

Two nodes on this machine, one topic; a profiler notes the files that run between `publish` and the first
system call that sends, and from there to the subscriber's iterator. How often the event loop turned before
that system call is counted, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from overlay import loops
from pubsub import Node

ROOT = Path(__file__).parents[1]
SOCKET = "overlay/transport/udp.py"
"""Its `send` is the socket's own."""


@dataclass
class Walk:
    """The files, in the order in which they first ran, and how many calls of functions there were."""

    turns: int = 1
    """Turns of the loop until the event was given to the socket, that of `publish` included."""

    publish: list[str] = field(default_factory=list)
    receive: list[str] = field(default_factory=list)
    publish_calls: int = 0
    receive_calls: int = 0
    has_left: bool = False
    """The event was given to the socket."""

    def leave(self) -> None:
        if not self.has_left:
            self.has_left = True
            self.publish = [file for file in self.publish if file != SOCKET] + [SOCKET]

    def turn(self) -> None:
        """Called once in each turn of the loop that follows that of `publish`."""
        if not self.has_left:
            self.turns += 1
            asyncio.get_running_loop().call_soon(self.turn)


@contextmanager
def _noted(walk: Walk) -> Iterator[None]:
    inside = f"{ROOT}/"

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(inside) or ".venv" in name or name == __file__:
            return
        file = name.removeprefix(inside)
        files = walk.receive if walk.has_left else walk.publish
        if file not in files:
            files.append(file)
        if walk.has_left:
            walk.receive_calls += 1
        else:
            walk.publish_calls += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def walk_of_an_event() -> Walk:
    """The walk of a lone event between two nodes that have met."""
    walk = Walk()
    async with (
        Node() as publisher,
        Node(bootstrap=[str(publisher.address)]) as subscriber,
        subscriber.subscribe("/walk") as events,
    ):
        for _ in range(3):  # the first events also make links, routes and leases
            await publisher.publish("/walk", "before", wait="acked")
            await anext(events)
        transport = publisher._attached().runtime.endpoint.transport
        send = transport.send

        def noted_send(data: bytes, to: tuple[str, int]) -> None:
            walk.leave()
            send(data, to)

        transport.send = noted_send  # type: ignore[method-assign]
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        with _noted(walk):
            asyncio.get_running_loop().call_soon(walk.turn)
            await publisher.publish("/walk", "noted")
            await reading
    return walk


def main() -> None:
    walk = loops.run(walk_of_an_event())
    print(f"the event left in turn {walk.turns} of the loop\n")
    for name, files, calls in (
        ("publish to the socket", walk.publish, walk.publish_calls),
        ("the socket to the iterator", walk.receive, walk.receive_calls),
    ):
        print(f"{name}: {len(files)} files, {calls} calls")
        print("".join(f"  {file}\n" for file in files))


if __name__ == "__main__":
    main()
