"""The event loop of a real node: uvloop where the platform has it, else asyncio's own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

NEW_OBJECTS = 20_000
"""Objects made before the garbage collector looks for cycles among them. Many events are under way at a time,
and with Python's own 700 each of them is looked at several times."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on the fastest loop there is; like `asyncio.run` otherwise."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner, _rarer_collections():
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop there is, for a thread of its own."""
    loop: asyncio.AbstractEventLoop = (_loop_factory() or asyncio.new_event_loop)()
    return loop


@contextmanager
def _rarer_collections() -> Iterator[None]:
    """Meanwhile, look for garbage in cycles less often, and never among what was there before."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
