"""Numbers as spans, the way they travel."""

from __future__ import annotations

from collections.abc import Iterable


def spans_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """First and last of each unbroken run of numbers that come in ascending order, each once."""
    numbers = list(numbers)
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return ((numbers[0], numbers[-1]),)
    spans: list[tuple[int, int]] = []
    first = last = None
    for number in numbers:
        if last is None or number != last + 1:
            if first is not None and last is not None:
                spans.append((first, last))
            first = number
        last = number
    if first is not None and last is not None:
        spans.append((first, last))
    return tuple(spans)
