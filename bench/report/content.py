"""What the report says, before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims import CLAIMS, Claim, Verdict, decide
from bench.report.figures import figures
from bench.report.plot import Figure
from bench.report.provenance import Provenance, provenance
from bench.report.tables import Table, tables
from bench.suites.settings import MODES


@dataclass(frozen=True, slots=True)
class Content:
    """Everything in the report, in the order of the page."""

    lead: str
    summary: tuple[str, ...]
    claims: list[tuple[Claim, Verdict]]
    tables: list[Table]
    figures: list[Figure]
    spread: str
    provenance: Provenance


def content(aggregates: Aggregates, directory: Path, spread: str) -> Content:
    """The report of the results below `directory`."""
    decided = decide(CLAIMS, aggregates)
    return Content(
        _lead(aggregates, decided),
        _summary(aggregates),
        decided,
        tables(aggregates),
        figures(aggregates),
        spread,
        provenance(aggregates, directory),
    )


def _lead(aggregates: Aggregates, decided: list[tuple[Claim, Verdict]]) -> str:
    held = sum(verdict.holds is True for _, verdict in decided)
    failed = sum(verdict.holds is False for _, verdict in decided)
    settings = len(
        {(row.suite, row.figure, row.tier, row.protocol, row.mode) for row in aggregates.select()}
    )
    return (
        f"Unstructured, semi-structured and structured membership, side by side, by formula, by simulation "
        f"and with the real code on an emulated network: {settings} kinds of experiment, "
        f"{len(decided)} claims of the paper, of which {held} hold here, {failed} do not, and "
        f"{len(decided) - held - failed} are undecided."
    )


def _summary(aggregates: Aggregates) -> tuple[str, ...]:
    """A sentence for each question that decides between the modes, from the results alone."""
    lines = []
    for figure, field, words in (
        ("figures-19-28", "p_sel", "with few links between communities (p_sel = {x:g})"),
        ("crashes", "failed", "after {x:.0%} of the processes crash, with 15 % loss"),
        ("churn", "failed", "while {x:.1%} of the processes change every second"),
    ):
        rows = _extreme(aggregates, figure, field)
        if rows:
            order = sorted(rows, key=lambda row: -row.value)
            x = getattr(order[0], field)
            values = ", ".join(f"{row.mode} {100 * row.value:.1f} %" for row in order)
            lines.append(f"Reception {words.format(x=x)}: {values}.")
    tables_kept = aggregates.select(
        figure="crashes", tier="emulate", metric="table_entries", community=WHOLE, failed=0.0
    )
    if tables_kept:
        values = ", ".join(f"{row.mode} {row.value:.1f}" for row in tables_kept)
        lines.append(f"Contacts that a process keeps: {values}.")
    lines.append(
        "Unstructured needs no DHT, only known gateways; semi-structured finds its contacts by itself and "
        "keeps the gossiped tables; structured draws both tables uniformly from the DHT and pays for it in "
        "DHT traffic."
    )
    return tuple(lines)


def _extreme(aggregates: Aggregates, figure: str, field: str) -> list[Aggregate]:
    """The emulated reception of each mode where it is hardest: fewest links, or most failures."""
    rows = aggregates.select(
        figure=figure, tier="emulate", protocol="camcast", metric="reception", community=WHOLE
    )
    values = sorted({getattr(row, field) for row in rows if getattr(row, field) is not None})
    if not values:
        return []
    hardest = values[0] if field == "p_sel" else values[-1]
    found = {row.mode: row for row in rows if getattr(row, field) == hardest}
    return [found[mode] for mode in MODES if mode in found]
