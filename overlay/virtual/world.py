"""What makes a run a function of its seed: chance, clocks and the collection of garbage.

Third-party code draws from the `random` module and from `os.urandom`, and reads `time.time()` and
`time.monotonic()`. During a run these give what the seed and the virtual clock say; afterwards they are as
they were before. `time.perf_counter` and `time.process_time` stay real, to measure the run itself. Chance
that is drawn in C (keys made by a cryptography library, for one) cannot be reached from here.

Objects in cycles are finalized when the collector finds them, and some finalizers act: a stream that closes
its socket, a task that nobody waits for. When the interpreter collects depends on all that it has ever
done, so during a run it does not; the loop collects after a fixed number of events.

The seeds of the latest networks are kept, and one may be forced upon all networks: so a failure is replayed.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overlay import entropy

_MOST_SEEDS = 8

recent_seeds: deque[int] = deque(maxlen=_MOST_SEEDS)
"""The seeds of the networks made last, the latest at the end."""
_forced_seed: int | None = None


def force_seed(seed: int | None) -> None:
    """Give every network of this process this seed, whatever it asks for; None ends it."""
    global _forced_seed
    _forced_seed = seed


def choose_seed(seed: int) -> int:
    """The seed that a network which asks for `seed` gets."""
    chosen = seed if _forced_seed is None else _forced_seed
    recent_seeds.append(chosen)
    return chosen


COLLECT_EVERY = 20_000
"""Events between two collections of what is young, at first."""
COLLECT_SHARE = 8
"""Later it is an eighth of all events so far: of a large network much is under way, and is looked at."""


@contextmanager
def no_automatic_collection() -> Iterator[None]:
    """Leave it to a `Collector` for as long as the block lasts; what there was before is not looked at."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class Collector:
    """Collects young garbage from time to time, and all garbage whenever the number of events is four times
    as large: that looks at every object there is, for seconds in a large network."""

    def __init__(self) -> None:
        self.due_at = COLLECT_EVERY
        """The number of events at which to call `collect`."""
        self._everything_at = 4 * COLLECT_EVERY

    def collect(self) -> None:
        if self.due_at >= self._everything_at:
            self._everything_at *= 4
            gc.collect()
        else:
            gc.collect(1)
        self.due_at += max(COLLECT_EVERY, self.due_at // COLLECT_SHARE)


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
