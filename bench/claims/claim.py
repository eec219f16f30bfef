"""A claim: a sentence, the paper's value, and the parts that results are held against. The rules of verdicts.

Every claim comes down to *parts*: a value, or a difference of two, with its interval, and the range in which
the sentence is true. The rules are the same for all, and docs/benchmark.md states them:

1. A part holds where its whole interval lies in the range, and does not where no point of it does; else it
   is undecided. A value that the paper states is held against from both sides: within 5 points for a share,
   within 10 % for anything else.
2. A part that says that one is more than another is about the difference, network by network. Where the
   whole interval of it lies within 5 points of zero (10 % of the smaller for a value that is not a share),
   there is no difference that matters: the sentence does not hold, and the verdict says "no difference".
3. Of real nodes, fewer than five networks decide nothing.
4. A claim holds where all of its parts do, and does not where one does not.

A verdict is computed from aggregates alone. What was not measured is neither true nor false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bench.aggregates import Aggregate, Aggregates
from bench.intervals import FEWEST, Interval, looks, networks_for
from bench.results import SHARES

SHARE_MARGIN = 0.05
"""Shares that differ by less are taken for equal."""
RELATIVE_MARGIN = 0.1
"""Anything else that differs by less of itself is taken for equal."""


Place = tuple[str, str, str]
"""The figure, variant and mode of networks of real nodes."""


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a claim, and the range in which the claim is true of it."""

    label: str
    interval: Interval
    low: float
    high: float
    """The range; infinite where there is no bound."""
    rows: tuple[Aggregate, ...] = ()
    """What it was computed from."""
    margin: float = 0.0
    """A difference this small, either way, is none (rule 2)."""
    is_share: bool = False

    @property
    def networks(self) -> int | None:
        """Of real nodes, the fewest behind it; None for what is simulated or computed."""
        return min((len(row.networks) for row in self.rows if row.is_of_networks), default=None)

    @property
    def has_enough(self) -> bool:
        return self.networks is None or self.networks >= FEWEST

    @property
    def is_alike(self) -> bool:
        """A difference that is too small to matter."""
        inside = -self.margin <= self.interval.low and self.interval.high <= self.margin
        return self.margin > 0 and inside

    @property
    def outcome(self) -> bool | None:
        if not self.has_enough:
            return None
        if self.is_alike:
            return False  # rule 2: however sure a difference is that does not matter
        if self.low <= self.interval.low and self.interval.high <= self.high:
            return True
        outside = self.interval.high < self.low or self.interval.low > self.high
        return False if outside else None

    @property
    def needed(self) -> int | None:
        """About how many networks would decide it, if what was seen goes on; None where none would."""
        if self.networks is None or self.networks < 2 or self.outcome is not None:
            return None
        half = (self.interval.high - self.interval.low) / 2
        edges = [edge for edge in (self.low, self.high) if math.isfinite(edge)]
        away = min((abs(self.interval.value - edge) for edge in edges), default=0.0)
        # A difference may also turn out to be none: where all of its interval is within the margin.
        away = max(away, self.margin - abs(self.interval.value))
        if not away or not math.isfinite(half):
            return None
        return networks_for(self.networks, half, away)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the results say of a claim."""

    holds: bool | None
    """None when the results do not decide it, or decide it in part."""
    parts: tuple[Part, ...] = ()
    because: str = ""
    """Why it does not hold or is not decided, or what is to be known of it where it holds."""
    word: str = ""
    """What the verdict is called where `holds` says too little, such as that a difference is explained."""

    @property
    def words(self) -> str:
        """The verdict as a reader is told it."""
        usual = {True: "holds", False: "does not hold", None: "undecided"}
        return self.word or usual[self.holds]

    @property
    def is_decided(self) -> bool:
        return self.holds is not None or bool(self.word)

    @property
    def wants(self) -> dict[Place, int]:
        """Of which real nodes more networks may decide it, and about how many it takes in all.

        One part that does not hold is enough (rule 4). So where parts look as if they do not hold, only the
        one that is nearest to being decided is looked at further.
        """
        if self.is_decided:
            return {}
        found: dict[Place, int] = {}
        for part in self._nearest():
            for row in part.rows:
                if row.is_of_networks:
                    place = (row.figure, row.variant, row.mode)
                    found[place] = max(found.get(place, 0), part.needed or FEWEST)
        return found

    def _nearest(self) -> list[Part]:
        """The undecided parts that would decide it with the fewest networks."""
        waiting = [part for part in self.parts if part.outcome is None]
        outside = [
            (part.needed, index)
            for index, part in enumerate(waiting)
            if part.needed and not part.low <= part.interval.value <= part.high
        ]
        if not outside or not all(part.has_enough for part in waiting):
            return waiting
        return [waiting[min(outside)[1]]]

    @property
    def networks(self) -> int | None:
        """The fewest networks behind any part of real nodes."""
        return min((p.networks for p in self.parts if p.networks is not None), default=None)


class NotMeasured(Exception):
    """What decides a claim is not among the results."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the paper that results can decide."""

    name: str
    sentence: str
    source: str
    """Where the paper says it."""
    paper: str
    """The paper's value."""
    decide: Callable[[Aggregates], Verdict]
    """What results say of it; may raise `NotMeasured`."""

    def evidence(self, aggregates: Aggregates) -> Verdict:
        """What results say of it."""
        try:
            return self.decide(aggregates)
        except NotMeasured:
            return NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Decided:
    """A claim with its verdict, and after how many networks it was decided."""

    claim: Claim
    verdict: Verdict
    after: int | None = None
    """Networks of the first look from which on the verdict was this one; None where none were needed, or it
    is undecided."""


def decide(claims: Iterable[Claim], aggregates: Aggregates) -> list[Decided]:
    """A verdict for each claim, in order."""
    earlier = [
        (look, aggregates.first(look)) for look in looks(max(FEWEST, aggregates.most_networks))[:-1]
    ]
    found = []
    for claim in claims:
        verdict = claim.evidence(aggregates)
        after = verdict.networks if verdict.is_decided else None
        if after is not None:
            for look, seen in reversed(earlier):
                if look < after and claim.evidence(seen).words != verdict.words:
                    break
                after = min(after, look)
        found.append(Decided(claim, verdict, after))
    return found


NOT_MEASURED = Verdict(None, (), "not measured: no suite with these experiments has been run")
EXPLAINED = "explained"
FITTED = "fitted"
IN_PART = "in part"
NOT_REFUTED = "not refuted"
NO_DIFFERENCE = "no difference"
NOT_COMPARABLE = "not comparable"


# Parts.


def at_least(label: str, row: Aggregate, bound: float) -> Part:
    """A value is `bound` or more."""
    return Part(label, row.interval, bound, math.inf, (row,), is_share=row.metric in SHARES)


def at_most(label: str, interval: Interval, bound: float, *rows: Aggregate) -> Part:
    """A value is `bound` or less."""
    return Part(label, interval, -math.inf, bound, rows)


def equals(label: str, interval: Interval, value: float, *rows: Aggregate) -> Part:
    """A value is the one that is stated, from both sides (rule 1)."""
    is_share = any(row.metric in SHARES for row in rows)
    margin = SHARE_MARGIN if is_share else RELATIVE_MARGIN * abs(value)
    return Part(label, interval, value - margin, value + margin, rows, is_share=is_share)


def exceeds(label: str, larger: Aggregate, smaller: Aggregate) -> Part:
    """One value is above another (rule 2); positive differences are what the sentence says."""
    return difference(label, larger, smaller, larger.minus(smaller))


def difference(label: str, larger: Aggregate, smaller: Aggregate, apart: Interval) -> Part:
    """The same of an interval of the difference that is known already."""
    is_share = larger.metric in SHARES
    smallest = min(abs(larger.value), abs(smaller.value))
    margin = SHARE_MARGIN if is_share else RELATIVE_MARGIN * smallest
    least = math.ulp(0.0)  # more than nothing
    return Part(label, apart, least, math.inf, (larger, smaller), margin, is_share)


def averaged(rows: Sequence[Aggregate]) -> Aggregate:
    """The mean of several metrics of the same networks, network by network; `NotMeasured` without any in
    common."""
    shared = set.intersection(*(set(row.networks) for row in rows)) if rows else set()
    if not shared:
        raise NotMeasured
    numbers = tuple(sorted(shared))
    samples = [dict(zip(row.networks, row.sample, strict=True)) for row in rows]
    sample = tuple(sum(own[number] for own in samples) / len(rows) for number in numbers)
    value = sum(sample) / len(sample)
    return replace(rows[0], networks=numbers, sample=sample, value=value)


def ratio(ours: Aggregate, theirs: Aggregate, factor: float) -> Aggregate | None:
    """`ours` over `factor` times `theirs`, network by network; None where nothing is left to divide by."""
    other = dict(zip(theirs.networks, theirs.sample, strict=True))
    pairs = [
        (number, value / (factor * other[number]))
        for number, value in zip(ours.networks, ours.sample, strict=True)
        if other.get(number)
    ]
    if not pairs:
        return None
    numbers, sample = zip(*pairs, strict=True)
    value = sum(sample) / len(sample)
    return replace(ours, metric="ratio", networks=numbers, sample=sample, value=value)


# Verdicts.


def all_hold(parts: Sequence[Part], true: str = "", false: str = "", word: str = "") -> Verdict:
    """Rule 4; `true` and `false` say why, `word` what it is called where it holds. Without parts nothing was
    measured."""
    if not parts:
        raise NotMeasured
    outcomes = [part.outcome for part in parts]
    if False in outcomes:
        failing = [part for part in parts if part.outcome is False]
        alike = all(part.is_alike for part in failing)
        because = f"{false}: {listed(part.label for part in failing)}" if false else ""
        return Verdict(False, tuple(parts), because, NO_DIFFERENCE if alike else "")
    if None in outcomes:
        return undecided(parts)
    return Verdict(True, tuple(parts), true, word)


def undecided(parts: Sequence[Part]) -> Verdict:
    """Why nothing is decided: too few networks, or intervals that cover a bound, and how close they are."""
    few = [part for part in parts if not part.has_enough]
    if few:
        fewest = min(part.networks or 0 for part in few)
        many = "network" if fewest == 1 else "networks"
        because = f"from {fewest} {many}, where at least {FEWEST} are needed"
        return Verdict(None, tuple(parts), because)
    wide = [part for part in parts if part.outcome is None]
    because = f"the interval covers a bound: {listed(part.label for part in wide)}"
    verdict = Verdict(None, tuple(parts), because)
    needed = max((part.needed or 0 for part in verdict._nearest()), default=0)
    more = f"; about {needed} networks would decide it" if needed else ""
    return replace(verdict, because=because + more)


def listed(parts: Iterable[str], most: int = 3) -> str:
    """The first few, and how many more there are."""
    found = list(parts)
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return "; ".join(found[:most] + more)
