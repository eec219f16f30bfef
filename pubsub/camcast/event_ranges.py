"""Numbers of a run's events as ranges: first number, how many, first number, how many.

An event's id is its publisher's run (8 bytes) and a number (8 bytes) that counts up, so what came one after
another is a few ranges, however many events it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pubsub.event import ID_BYTES, RUN_BYTES

MOST_NUMBERS = 1024
"""Events that one message may name."""

_NUMBER_BYTES = ID_BYTES - RUN_BYTES
_NUMBERS = 1 << 8 * _NUMBER_BYTES


def stretches_of(event_ids: Sequence[bytes]) -> list[range]:
    """The numbers of some events of a run, in order, as ranges."""
    if len(event_ids) == 1:
        number = int.from_bytes(event_ids[0][RUN_BYTES:], "big")
        return [range(number, number + 1)]
    numbers = [int.from_bytes(event_id[RUN_BYTES:], "big") for event_id in event_ids]
    whole = range(numbers[0], numbers[0] + len(numbers))
    if numbers == list(whole):
        return [whole]
    return [range(number, number + 1) for number in numbers]


def event_id_of(run: bytes, number: int) -> bytes:
    return run + number.to_bytes(_NUMBER_BYTES, "big")


def event_ids(run: bytes, ranges: Sequence[int]) -> list[bytes]:
    """The ids of the events of a run that these ranges name."""
    return [
        event_id_of(run, number)
        for first, many in zip(ranges[::2], ranges[1::2], strict=True)
        for number in range(first, first + many)
    ]


class Ranges:
    """Ranges that numbers are added to, cut so that each part names at most `MOST_NUMBERS`."""

    __slots__ = ("_count", "_next", "_parts")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._parts: list[list[int]] = []
        self._next = -1
        self._count = MOST_NUMBERS
        for number in numbers:
            self.add(number)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, number: int) -> None:
        if self._count >= MOST_NUMBERS:
            self._parts.append([number, 1])
            self._count = 1
        elif number == self._next:
            self._parts[-1][-1] += 1
            self._count += 1
        else:
            self._parts[-1] += (number, 1)
            self._count += 1
        self._next = number + 1

    def add_range(self, numbers: range) -> None:
        """Add numbers that follow each other."""
        room = MOST_NUMBERS - self._count
        if numbers.start == self._next and len(numbers) <= room:
            self._parts[-1][-1] += len(numbers)
            self._count += len(numbers)
            self._next = numbers.stop
        else:
            for number in numbers:
                self.add(number)

    def parts(self) -> list[tuple[int, ...]]:
        return [tuple(part) for part in self._parts]


def read_ranges(run: bytes, ranges: tuple[int, ...]) -> list[range] | None:
    """What a peer named; None when it is not of this form, or is more than one message may name."""
    if len(run) != RUN_BYTES or len(ranges) % 2:
        return None
    result, count = [], 0
    for first, many in zip(ranges[::2], ranges[1::2], strict=True):
        count += many
        if first < 0 or many < 1 or first + many > _NUMBERS or count > MOST_NUMBERS:
            return None
        result.append(range(first, first + many))
    return result
