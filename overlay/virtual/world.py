"""The sources of chance and time that code reaches without asking the loop.

Third-party code draws from the `random` module and from `os.urandom`, and reads `time.time()` and
`time.monotonic()`. During a run these give what the seed and the virtual clock say; afterwards they are as
they were before. `time.perf_counter` and `time.process_time` stay real, to measure the run itself. Chance
that is drawn in C (keys made by a cryptography library, for one) cannot be reached from here.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overlay import entropy

EPOCH = 1_700_000_000.0
"""What `time.time()` shows at virtual time 0; any fixed moment would do."""


@contextmanager
def seeded_world(seed: int, clock: Callable[[], float]) -> Iterator[None]:
    """Tie the module-level sources to a seed and a clock for as long as the block lasts."""
    urandom = stream(seed, "urandom").randbytes
    replaced: list[tuple[Any, str, Any]] = [
        (entropy, "source", stream(seed, "entropy")),
        (os, "urandom", urandom),
        (random, "_urandom", urandom),  # the name under which SystemRandom knows it
        (time, "time", lambda: EPOCH + clock()),
        (time, "time_ns", lambda: int((EPOCH + clock()) * 1e9)),
        (time, "monotonic", clock),
        (time, "monotonic_ns", lambda: int(clock() * 1e9)),
    ]
    originals = [getattr(module, name) for module, name, _ in replaced]
    state = random.getstate()
    random.seed(f"{seed}/random")
    for module, name, substitute in replaced:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        for (module, name, _), original in zip(replaced, originals, strict=True):
            setattr(module, name, original)
        random.setstate(state)


def stream(seed: int, purpose: str) -> random.Random:
    """A source of its own for a purpose, so that more draws for one do not shift the others."""
    return random.Random(f"{seed}/{purpose}")
