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
from bench.report.real_nodes import real_node_tables
from bench.report.table import Table, in_words
from bench.report.tables import tables
from bench.suites.settings import MODES


@dataclass(frozen=True, slots=True)
class Content:
    """Everything in the report, in the order of the page."""

    lead: str
    modes: Table
    """The modes side by side, a row for each question that decides between them."""
    advice: str
    claims: list[tuple[Claim, Verdict]]
    tables: list[Table]
    figures: list[Figure]
    real_nodes: list[Table]
    spread: str
    provenance: Provenance


def content(aggregates: Aggregates, directory: Path, spread: str) -> Content:
    """The report of the results below `directory`."""
    decided = decide(CLAIMS, aggregates)
    return Content(
        _lead(aggregates, decided),
        _modes(aggregates),
        ADVICE,
        decided,
        tables(aggregates),
        figures(aggregates),
        real_node_tables(aggregates),
        spread,
        provenance(aggregates, directory),
    )


def _lead(aggregates: Aggregates, decided: list[tuple[Claim, Verdict]]) -> str:
    held = sum(verdict.holds is True for _, verdict in decided)
    failed = sum(verdict.holds is False for _, verdict in decided)
    settings = len(
        {(row.suite, row.figure, row.tier, row.protocol, row.mode) for row in aggregates.select()}
    )
    tiers = dict.fromkeys(row.tier for row in aggregates.select())
    how = [words for tier, words in TIER_WORDS.items() if tier in tiers]
    return (
        f"Unstructured, semi-structured and structured membership, side by side, {_listed(how)}: {settings} "
        f"kinds of experiment. Of {len(decided)} claims of the paper, {_number(held, 'holds', 'hold')} here, "
        f"{_number(failed, 'does not', 'do not')}, and "
        f"{_number(len(decided) - held - failed, 'is undecided', 'are undecided')}."
    )


TIER_WORDS = {
    "model": "by formula",
    "simulate": "by simulation",
    "emulate": "with the real code on an emulated network",
    "live": "with real processes over UDP",
}

ADVICE = (
    "Unstructured needs no DHT, only known gateways; semi-structured finds its contacts by itself and "
    "keeps the gossiped tables; structured draws both tables uniformly from the DHT and pays for it in "
    "DHT traffic."
)


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _modes(aggregates: Aggregates) -> Table:
    """A row for each question that decides between the modes, from emulated nodes alone."""
    rows = []
    for figure, field, metric, words in (
        ("figures-19-28", "p_sel", "reception", "reception, few links upward (p_sel = {x:g})"),
        ("crashes", "failed", "reception", "reception, {x:.0f} % crashed, 15 % loss"),
        ("churn", "failed", "reception", "reception, {x:g} % change every second, 15 % loss"),
        ("figures-19-28", "p_sel", "rounds", "rounds to the last reception (p_sel = {x:g})"),
        ("crashes", "failed", "table_entries", "contacts a process keeps, {x:.0f} % crashed"),
    ):
        found = _extreme(aggregates, figure, field, metric)
        if found:
            x = getattr(next(iter(found.values())), field)
            question = words.format(x=x if field == "p_sel" else 100 * x)
            share = metric == "reception"
            rows.append((question, *(in_words(found.get(mode), share=share) for mode in MODES)))
    return Table("", ("emulated", *MODES), tuple(rows))


def _extreme(aggregates: Aggregates, figure: str, field: str, metric: str) -> dict[str, Aggregate]:
    """The emulated value of each mode where it is hardest: fewest links, or most failures."""
    rows = aggregates.select(
        figure=figure, tier="emulate", protocol="camcast", metric=metric, community=WHOLE
    )
    values = sorted({getattr(row, field) for row in rows if getattr(row, field) is not None})
    if not values:
        return {}
    hardest = values[0] if field == "p_sel" else values[-1]
    return {row.mode: row for row in rows if getattr(row, field) == hardest}
