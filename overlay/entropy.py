"""Where random identifiers, nonces and jitter come from: the operating system's source."""

from __future__ import annotations

import random

source: random.Random = random.SystemRandom()
"""The system's source; a virtual network puts a seeded one in its place while it runs."""


def entropy() -> random.Random:
    return source
