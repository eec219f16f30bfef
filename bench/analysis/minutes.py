"""What happened in one community minute by minute, from trace rows as they come: the state behind `watch`.

An event is waited for until its publication is twice the *spread time* ago (the time within which an event
should have reached everyone) by the clock of the newest rows. Then its members' account is closed: who was
a member when it was published and has no copy has missed it. Whatever is held is bounded by the events of
that time and by the members of the community.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgpack

from bench.traces import PARASITE

MINUTE = 60
COUNTED = ("published", "expected", "delivered", "missed", "late", "duplicates", "parasites")
FINE = 1.02
"""Latencies are counted in classes, each 2 % wider than the one before it: percentiles are that exact."""


@dataclass(slots=True)
class Seen:
    """An event that is still waited for."""

    published: float | None = None
    had: dict[str, float] = field(default_factory=dict)
    """By node: when it had the event."""
    came: list[str] = field(default_factory=list)
    """The nodes to which a copy came; the others had it in another community."""
    duplicates: int = 0
    parasites: int = 0

    @property
    def begin(self) -> float:
        """When it was published, or first seen."""
        return self.published if self.published is not None else min(self.had.values(), default=0.0)


@dataclass(slots=True)
class Community:
    """The state of one community."""

    moves: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    """By node, in order: when it joined (True) and left (False)."""
    events: dict[str, Seen] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    """By minute: what was counted of events that are closed."""
    classes: dict[int, dict[int, int]] = field(default_factory=dict)
    """By minute: how many latencies are in each class."""

    def note(self, row: Mapping[str, Any]) -> None:
        """A row of a trace; rows may come in any order."""
        kind, node, time = row["kind"], row["node"], row["time"]
        if kind in ("join", "leave"):
            insort(self.moves.setdefault(node, []), (time, kind == "join"))
            return
        if row["event"] is None:
            return
        seen = self.events.setdefault(row["event"], Seen())
        if kind == "publish":
            seen.published = time
            if row["topic"] == row["community"]:
                seen.had.setdefault(node, time)
        elif kind == "receive":
            seen.had.setdefault(node, time)
            if row["peer"] is not None:
                seen.came.append(node)
        elif kind == "duplicate":
            seen.duplicates += 1
        elif kind == "drop" and row["detail"] == PARASITE:
            seen.parasites += 1

    def _is_member(self, node: str, moment: float) -> bool:
        before = [joined for time, joined in self.moves[node] if time <= moment]
        return bool(before) and before[-1]

    def close(self, watermark: float, spread: float) -> list[dict[str, Any]]:
        """Close what is over when no row before `watermark` comes any more; the minutes that are complete."""
        for name, seen in list(self.events.items()):
            if seen.begin + spread < watermark:
                del self.events[name]
                self._count(seen, spread)
        over = [minute for minute in self.counts if (minute + 1) * MINUTE + spread < watermark]
        found = [self._row(minute) for minute in sorted(over)]
        self._forget(watermark - 2 * spread)
        return found

    def _forget(self, before: float) -> None:
        """Moves that say nothing of the time since, and nodes that have left."""
        for node, moves in list(self.moves.items()):
            old = [move for move in moves if move[0] < before]
            kept = moves[len(old) - 1 :] if old and old[-1][1] else moves[len(old) :]
            if kept:
                self.moves[node] = kept
            else:
                del self.moves[node]

    def _count(self, seen: Seen, spread: float) -> None:
        counts = self.counts.setdefault(int(seen.begin // MINUTE), dict.fromkeys(COUNTED, 0))
        counts["duplicates"] += seen.duplicates
        counts["parasites"] += seen.parasites
        if seen.published is None:  # its account was closed before, or its publisher is not traced
            counts["late"] += len(seen.had)
            return
        moment = seen.published
        expected = {node for node in self.moves if self._is_member(node, moment)}
        counts["published"] += 1
        counts["expected"] += len(expected)
        counts["delivered"] += len(expected & seen.had.keys())
        counts["missed"] += len(expected - seen.had.keys())
        counts["parasites"] += len(seen.had.keys() - self.moves.keys())
        counts["late"] += sum(time - moment > spread for time in seen.had.values())
        classes = self.classes.setdefault(int(moment // MINUTE), {})
        for node in seen.came:
            own = latency_class(seen.had[node] - moment)
            classes[own] = classes.get(own, 0) + 1

    def _row(self, minute: int) -> dict[str, Any]:
        classes = self.classes.pop(minute, {})
        p50, p99 = (percentile(classes, share) for share in (0.5, 0.99))
        return {"minute": minute * MINUTE, **self.counts.pop(minute), "p50": p50, "p99": p99}

    def pack(self) -> bytes:
        events = {name: [getattr(e, f.name) for f in fields(e)] for name, e in self.events.items()}
        packed: bytes = msgpack.packb([self.moves, events, self.counts, self.classes])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Community:
        moves, events, counts, classes = msgpack.unpackb(packed, strict_map_key=False)
        return cls(
            {node: [(time, joined) for time, joined in own] for node, own in moves.items()},
            {name: Seen(*values) for name, values in events.items()},
            counts,
            classes,
        )


def latency_class(seconds: float) -> int:
    """The class of a latency: class 0 ends at a tenth of a millisecond."""
    return max(0, math.ceil(math.log(max(seconds, 1e-4) / 1e-4, FINE)))


def percentile(classes: Mapping[int, int], share: float) -> float | None:
    """The upper end of the class in which the percentile lies, in seconds."""
    total = sum(classes.values())
    passed = 0
    for own in sorted(classes):
        passed += classes[own]
        if passed >= share * total:
            return float(1e-4 * FINE**own)
    return None


def alerts(
    rows: Iterable[Mapping[str, Any]], most_missed: float, latest: float
) -> list[dict[str, Any]]:
    """What is wrong in complete minutes: a share missed, parasites, a p99 above what is asked for."""
    found = []
    for row in rows:
        share = row["missed"] / row["expected"] if row["expected"] else 0.0
        told = []
        if share > most_missed:
            told.append(f"{row['missed']} of {row['expected']} receptions missed")
        if row["parasites"]:
            told.append(f"{row['parasites']} parasites")
        if row["p99"] is not None and row["p99"] > latest:
            told.append(f"p99 {row['p99']:.2f} s")
        if told:
            found.append({**row, "alert": "; ".join(told)})
    return found
