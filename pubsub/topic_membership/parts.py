"""How large one part of what is told may be, and numbers in pieces that fit one (see `reliable.batches`)."""

from __future__ import annotations

from collections.abc import Iterator

from pubsub.topic_membership.messages import NumbersOnWire

PART_BYTES = 128 * 1024
"""About the size of one part; channels carry a megabyte."""

SOURCE_BYTES = 24
"""Of one source among numbers, and of one range at most."""

MOST_RANGES_TOGETHER = 2048
"""A source with more ranges of numbers is told in pieces."""


def numbers_size(numbers: NumbersOnWire) -> int:
    """About how many bytes some numbers take."""
    return SOURCE_BYTES * sum(1 + len(ranges) for _, _, ranges in numbers)


def pieces(numbers: NumbersOnWire) -> Iterator[NumbersOnWire]:
    """Numbers that together say the same, each of one source and of few ranges."""
    step = MOST_RANGES_TOGETHER
    for source, mark, ranges in numbers:
        for at in range(0, max(1, len(ranges)), step):
            yield ((source, mark, ranges[at : at + step]),)
