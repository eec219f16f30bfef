"""Each source's items in the order of their numbers, each once; what comes early waits.

`Order` is for sources whose missing items are asked for until they come: what comes too early, beyond the
bounds, is dropped, and comes again in time. Somebody who knows that an item will never come says so by
`skip_to`: what is missing is told as a gap, and the order goes on behind it.

`PatientOrder` is for sources that may miss items for good: it waits for them for a time, and for at most a
number of items, then tells the gap and goes on. An item that comes after it was given up is old.

Neither takes an item out of its turn or twice, whatever comes in whatever order. A source whose items
come in order costs one number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Generic, TypeVar

from overlay.context import Timer
from pubsub.reliable.numbers import Span

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Verdict(Enum):
    """What became of an item."""

    TAKEN = "taken"
    EARLY = "early"
    """It waits for those before it."""
    OLD = "old"
    """It was taken before, or given up, or waits already."""
    REFUSED = "refused"
    """It is too early for the bounds, and was dropped."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may wait for its turn; None for no bound, where something else bounds it."""

    ahead: int | None = 8192
    """Numbers between an item and the one whose turn it is; hence items of one source that wait."""
    sources: int | None = 1024
    """Sources of which anything waits; beyond, the one that nothing was added to for longest is dropped."""
    bytes: int | None = 32 * 1024 * 1024
    """Of all that waits, by `size`; beyond, that source's items are dropped, the last ones first."""


UNBOUNDED = Bounds(None, None, None)


class Order(Generic[K, T]):
    """All sources of one receiver, which begin with number 1 unless `begin` says otherwise.

    `emit` may call back into the order."""

    def __init__(
        self,
        emit: Callable[[K, int, T], None],
        *,
        gap: Callable[[K, int, int], None] = lambda source, first, last: None,
        bounds: Bounds | None = None,
        size: Callable[[T], int] = lambda item: 0,
        dropped: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`emit(source, number, item)` in turn. `gap(source, first, last)`: these will not be emitted; it is
        called before the item that follows them. `dropped(count)`: items that waited and had to go."""
        self.early_bytes = 0
        """Bytes of all items that wait, by `size`."""
        self._emit = emit
        self._gap = gap
        self._bounds = bounds or Bounds()
        self._size = size
        self._dropped = dropped
        self._next: dict[K, int] = {}
        self._early: dict[K, dict[int, T]] = {}
        """Items that wait, by source; the source that something was added to last is at the end."""

    # Taking.

    def take(self, source: K, number: int, item: T) -> Verdict:
        """Emit the item if it is its turn, and what waited for it; or keep it until it is."""
        following = self._next.get(source, 1)
        if number == following:
            self._next[source] = number + 1
            self._emit(source, number, item)
            if self._early:
                self._release(source)
            return Verdict.TAKEN
        if number < following:
            return Verdict.OLD
        return self._hold(source, number, item, following)

    def take_run(self, source: K, first: int, items: Sequence[T]) -> Sequence[T]:
        """Take consecutive items at once, of which the first has this number.

        The items whose turn it is, and those that waited behind them, are given back and not emitted: the
        first of them has the number after what `last` was. Items that are early wait."""
        following = self._next.get(source, 1)
        if first > following:
            for at, item in enumerate(items):
                if self._is_too_early(first + at - following):
                    self._dropped(len(items) - at)
                    break
                self._hold(source, first + at, item, following)
            return ()
        fresh = items[following - first :]
        if not fresh:
            return ()
        stop = following + len(fresh)
        early = self._early.get(source)
        if early is not None:
            for number in [number for number in early if number < stop]:
                self._pop(early, number)
            fresh = list(fresh)
            while stop in early:
                fresh.append(self._pop(early, stop))
                stop += 1
            if not early:
                del self._early[source]
        self._next[source] = stop
        return fresh

    def _is_too_early(self, ahead: int) -> bool:
        return self._bounds.ahead is not None and ahead > self._bounds.ahead

    def _hold(self, source: K, number: int, item: T, following: int) -> Verdict:
        if self._is_too_early(number - following):
            return Verdict.REFUSED
        early = self._early.pop(source, {})
        self._early[source] = early
        if number in early:
            return Verdict.OLD
        early[number] = item
        self.early_bytes += self._size(item)
        self._make_room()
        return Verdict.EARLY if number in early else Verdict.REFUSED

    def _make_room(self) -> None:
        most_sources, most_bytes = self._bounds.sources, self._bounds.bytes
        count = 0
        if most_sources is not None and len(self._early) > most_sources:
            count += self._drop_early(next(iter(self._early)), 0)
        while most_bytes is not None and self.early_bytes > most_bytes and self._early:
            count += self._drop_early(next(iter(self._early)), most_bytes)
        if count:
            self._dropped(count)

    def _drop_early(self, source: K, keep_bytes: int) -> int:
        """Drop items of a source, the last ones first, until at most this many bytes wait in all."""
        early, count = self._early[source], 0
        for number in sorted(early, reverse=True):
            if keep_bytes and self.early_bytes <= keep_bytes:
                break
            self._pop(early, number)
            count += 1
        if not early:
            del self._early[source]
        return count

    def _pop(self, early: dict[int, T], number: int) -> T:
        item = early.pop(number)
        self.early_bytes -= self._size(item)
        return item

    def _release(self, source: K) -> None:
        """Emit what waited, as far as nothing is missing."""
        while True:
            early, number = self._early.get(source), self._next.get(source, 1)
            if early is None or number not in early:
                return
            item = self._pop(early, number)
            if not early:
                del self._early[source]
            self._next[source] = number + 1
            self._emit(source, number, item)

    # Giving up.

    def skip_to(self, source: K, number: int) -> None:
        """Nothing up to this number will come any more: tell what is missing, emit what waited."""
        early = self._early.get(source, {})
        for stop in [*sorted(one for one in early if one <= number), number + 1]:
            following = self._next.get(source, 1)
            if following < stop:
                self._next[source] = stop
                self._gap(source, following, stop - 1)
            self._release(source)

    def begin(self, source: K, after: int) -> None:
        """A source begins after this number, and what is before it is not missed; no effect on one that is
        further already."""
        if after >= self._next.get(source, 1):
            self._next[source] = after + 1
            early = self._early.get(source)
            if early is not None:
                for number in [number for number in early if number <= after]:
                    self._pop(early, number)
                if not early:
                    del self._early[source]
                self._release(source)

    def forget(self, source: K) -> None:
        """Know nothing of a source any more: should anything of it come, it begins with 1 again."""
        self._next.pop(source, None)
        early = self._early.pop(source, {})
        self.early_bytes -= sum(map(self._size, early.values()))

    # Looking.

    def __len__(self) -> int:
        """How many sources are known."""
        return len(self._next)

    def __contains__(self, source: K) -> bool:
        return source in self._next

    def sources(self) -> list[K]:
        """Every source that is known, or of which anything waits."""
        return list({**self._next, **dict.fromkeys(self._early)})

    def last(self, source: K) -> int:
        """The number up to which a source's items were emitted or given up."""
        return self._next.get(source, 1) - 1

    def marks(self) -> dict[K, int]:
        """`last` of every source."""
        return {source: following - 1 for source, following in self._next.items()}

    def recent(self, count: int) -> dict[K, int]:
        """`last` of the sources that are known since, or were touched, last."""
        return {source: self._next[source] - 1 for source in islice(reversed(self._next), count)}

    def touch(self, source: K) -> None:
        """A source that is known was heard just now: it is the last to be found by `silent`."""
        self._next[source] = self._next.pop(source)

    def silent(self) -> K:
        """The source that was not touched for longest."""
        return next(iter(self._next))

    def early(self, source: K, number: int) -> T | None:
        """An item that waits."""
        early = self._early.get(source)
        return None if early is None else early.get(number)

    def hole(self, source: K) -> Span | None:
        """What is missing before the first item that waits; None if none does."""
        early = self._early.get(source)
        return Span(self._next.get(source, 1), min(early) - 1) if early else None

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return sum(map(len, self._early.values()))


class PatientOrder(Order[K, T]):
    """An order that gives up what does not come in time.

    A source whose first item that comes is not number 1 waits for earlier ones too."""

    def __init__(
        self,
        emit: Callable[[K, int, T], None],
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        patience: float | None,
        most_early: int,
        most_sources: int | None = None,
        gap: Callable[[K, int, int], None] = lambda source, first, last: None,
    ) -> None:
        """`patience`: seconds that an item waits for those before it; None for as long as it takes.
        `most_early`: items of one source that wait, if there is a patience; one more gives up what they
        wait for. `most_sources`: sources that are known at a time; for one more, the source that was silent
        for longest is given up and forgotten."""
        super().__init__(emit, gap=gap, bounds=UNBOUNDED)
        self._call_later = call_later
        self._patience = patience
        self._most_early = most_early
        self._most_sources = most_sources
        self._timers: dict[K, Timer] = {}

    def take_next(self, source: K, first: int, count: int) -> bool:
        """Whether it is the turn of these consecutive items and nothing waits behind them: they count as
        emitted then, and the caller emits them all at once. Otherwise `take` them one by one."""
        if source in self._early or first != self._heard(source):
            return False
        self._next[source] = first + count
        return True

    def _heard(self, source: K) -> int:
        """The number whose turn it is at a source, which is now the one that was heard last."""
        following = self._next.pop(source, 0)
        if not following:
            if self._most_sources is not None and len(self._next) >= self._most_sources:
                silent = self.silent()
                self._emit_all(silent)
                self.forget(silent)
            following = 1
        self._next[source] = following
        return following

    def take(self, source: K, number: int, item: T) -> Verdict:
        self._heard(source)
        verdict = super().take(source, number, item)
        if self._timers or verdict is Verdict.EARLY:
            self._wait_or_give_up(source)
        return verdict

    def _wait_or_give_up(self, source: K) -> None:
        early = self._early.get(source)
        if early is None:
            timer = self._timers.pop(source, None)
            if timer is not None:
                timer.cancel()
        elif self._patience is not None:
            if len(early) > self._most_early:
                self._give_up(source)
            elif source not in self._timers:
                self._timers[source] = self._call_later(
                    self._patience, lambda: self._timed_out(source)
                )

    def _timed_out(self, source: K) -> None:
        self._timers.pop(source, None)
        self._give_up(source)

    def _give_up(self, source: K) -> None:
        """Go on with the lowest item that waits."""
        timer = self._timers.pop(source, None)
        if timer is not None:
            timer.cancel()
        hole = self.hole(source)
        if hole is None:
            return
        self.skip_to(source, hole.last)
        self._wait_or_give_up(source)

    def _emit_all(self, source: K) -> None:
        while source in self._early:
            self._give_up(source)

    def close(self) -> None:
        """Emit what waits, gaps or not, and know nothing any more."""
        for source in list(self._early):
            self._emit_all(source)
        self._next.clear()
