"""What the report says, before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, Claim, Verdict, decide
from bench.report.experiments import experiments_table
from bench.report.figures import figures
from bench.report.modes import advice, modes_table
from bench.report.plot import Figure
from bench.report.provenance import Provenance, provenance
from bench.report.real_nodes import real_node_tables
from bench.report.table import Table
from bench.report.tables import tables


@dataclass(frozen=True, slots=True)
class Content:
    """Everything in the report, in the order of the page."""

    lead: str
    modes: Table
    """The modes side by side, a row for each question that decides between them."""
    advice: list[str]
    claims: list[tuple[Claim, Verdict]]
    tables: list[Table]
    figures: list[Figure]
    real_nodes: list[Table]
    spread: str
    provenance: Provenance
    experiments: Table
    """Parameters and seeds."""


def content(aggregates: Aggregates, directory: Path, spread: str) -> Content:
    """The report of the results below `directory`."""
    decided = decide(CLAIMS, aggregates)
    return Content(
        _lead(aggregates, decided),
        modes_table(aggregates),
        advice(aggregates),
        decided,
        tables(aggregates),
        figures(aggregates),
        real_node_tables(aggregates),
        spread,
        provenance(aggregates, directory),
        experiments_table(directory),
    )


def _lead(aggregates: Aggregates, decided: list[tuple[Claim, Verdict]]) -> str:
    held = sum(verdict.holds is True for _, verdict in decided)
    failed = sum(verdict.holds is False for _, verdict in decided)
    partly = sum(verdict.holds is None and bool(verdict.word) for _, verdict in decided)
    undecided = len(decided) - held - failed - partly
    settings = len(
        {(row.suite, row.figure, row.tier, row.protocol, row.mode) for row in aggregates.select()}
    )
    tiers = dict.fromkeys(row.tier for row in aggregates.select())
    how = [words for tier, words in TIER_WORDS.items() if tier in tiers]
    return (
        f"Unstructured, semi-structured and structured membership, side by side, {_listed(how)}: {settings} "
        f"kinds of experiment. Of {len(decided)} claims of the paper, {_number(held, 'holds', 'hold')} here, "
        f"{_number(failed, 'does not', 'do not')}, {_number(partly, 'does', 'do')} in part or with a "
        f"difference that is explained, and {_number(undecided, 'is undecided', 'are undecided')}."
    )


TIER_WORDS = {
    "model": "by formula",
    "simulate": "by simulation",
    "emulate": "with the real code on an emulated network",
    "live": "with real processes over UDP",
}


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
