"""`camcast bench compare RUN_A RUN_B`: what changed between two runs, by the rules of claims.

Two commits, two machines or two settings of one's own: each an output directory with results. What both have
measured is compared setting by setting, all communities together, by the difference of networks of the same
number. There are many settings, and one of them should not be called changed by chance: so the error of all
comparisons together is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import NOT_MEASURED, decide, difference
from bench.intervals import FEWEST, Interval
from bench.report.table import digits, per_cent, row_words
from bench.results import SHARES, WHOLE
from bench.workloads.workload import markdown_table

COMPARED = (
    *("reliability", "reception", "seconds", "rounds", "messages_inside", "messages_upward"),
    *("parasites", "event_bytes", "event_datagrams", "join_datagrams", "rest_bytes"),
    *("rest_datagrams", "repair_seconds", "table_entries", "largest_table", "uniformity"),
)
LISTED = 40
"""The most changes that are listed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of one setting, before and after."""

    before: Aggregate
    after: Aggregate
    apart: Interval
    """After minus before."""

    @property
    def verdict(self) -> str:
        """more, less, same (rule 2: within the margin, however sure), few (networks) or undecided."""
        is_alike = not self.before.is_of_networks and self.before.sample == self.after.sample
        if is_alike or self.apart.low == self.apart.high == 0.0:
            return "same"  # formulas, and simulations: event for event
        part = difference("", self.after, self.before, self.apart)
        if not part.has_enough:
            return "few"
        if part.is_alike:
            return "same"
        return {True: "more", False: "less", None: "undecided"}[part.outcome]

    @property
    def size(self) -> float:
        """How large it is: in points for a share, else as a share of what it was."""
        scale = 1.0 if self.before.metric in SHARES else abs(self.before.value) or 1.0
        return abs(self.apart.value) / scale


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that two runs have both measured, and those claims of it whose verdict differs."""

    changes: tuple[Change, ...]
    claims: tuple[tuple[str, str, str], ...]
    """The sentence, the verdict before, the verdict after."""

    def of(self, *verdicts: str) -> list[Change]:
        return [change for change in self.changes if change.verdict in verdicts]


def compare(before: Aggregates, after: Aggregates) -> Comparison:
    """What `after` has that `before` has, too, and how they differ."""
    from bench.claims import CLAIMS

    earlier = {row.setting: row for row in _rows(before)}
    pairs = [(earlier[row.setting], row) for row in _rows(after) if row.setting in earlier]
    # A formula differs or does not: only what was drawn shares the error.
    among = max(1, sum(row.tier != "model" for _, row in pairs))
    changes = tuple(Change(one, two, two.minus(one, among)) for one, two in pairs)
    verdicts = zip(decide(CLAIMS, before), decide(CLAIMS, after), strict=True)
    claims = tuple(
        (one.claim.sentence, one.verdict.words, two.verdict.words)
        for one, two in verdicts
        if one.verdict.words != two.verdict.words and NOT_MEASURED not in (one.verdict, two.verdict)
    )
    return Comparison(changes, claims)


def _rows(aggregates: Aggregates) -> Iterable[Aggregate]:
    for metric in COMPARED:
        yield from aggregates.select(metric=metric, community=WHOLE)


def as_text(found: Comparison, before: str, after: str) -> str:
    """Markdown: what changed, largest first, then what did not, in a line."""
    changed = sorted(found.of("more", "less"), key=lambda change: -change.size)
    same, open_yet, few = (len(found.of(word)) for word in ("same", "undecided", "few"))
    lines = [f"# {before} and {after}", ""]
    lines.append(
        f"Of {len(found.changes)} values that both have, {len(changed)} changed, {same} are the same "
        f"(within 5 points, or 10 %), {open_yet} are not decided, and {few} have fewer than {FEWEST} "
        "networks."
    )
    if changed:
        heads = ("what", before, after, "difference")
        rows = [_cells(change) for change in changed[:LISTED]]
        lines += ["", markdown_table([heads, *rows])]
        if len(changed) > LISTED:
            lines += ["", f"and {len(changed) - LISTED} more"]
    if found.claims:
        claims = [("claim", before, after), *found.claims]
        lines += ["", markdown_table(claims)]
    else:
        lines += ["", "No claim of the paper that both have measured has another verdict."]
    return "\n".join(lines) + "\n"


def _cells(change: Change) -> tuple[str, ...]:
    row, apart = change.before, change.apart
    write = _share if row.metric in SHARES else digits
    low, value, high = (
        "?" if math.isinf(n) else write(n) for n in (apart.low, apart.value, apart.high)
    )
    what = f"{row.metric.replace('_', ' ')}: {row.figure}, {row_words(row)}"
    return what, write(row.value), write(change.after.value), f"{value} [{low}, {high}]"


def _share(value: float) -> str:
    return f"{per_cent(value)} %"
