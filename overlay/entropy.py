"""Where random identifiers, nonces and jitter come from.

Outside the virtual network this is the operating system's source. A virtual event loop carries its
own seeded source in an attribute `entropy`, so that the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import random


def entropy() -> random.Random:
    """The running loop's seeded source when it has one, else the system's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _SYSTEM
    source = getattr(loop, "entropy", _SYSTEM)
    assert isinstance(source, random.Random)
    return source


_SYSTEM = random.SystemRandom()
