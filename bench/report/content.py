"""What the report says, before it is laid out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bench.aggregates import Aggregates
from bench.claims import CLAIMS, Decided, decide
from bench.report.figures import figures
from bench.report.headline import Headline, headline
from bench.report.material import (
    Material,
    comparison,
    cost_table,
    experiments_table,
    provenance,
    seeds_by_setting,
)
from bench.report.real_nodes import cross_check, pareto, real_node_tables, variants_table
from bench.report.spread import spread
from bench.report.svg import Figure
from bench.report.table import Table, in_a_sentence
from bench.report.tables import speed_figures, speed_tables, tables

TIER_WORDS = {
    "model": "by formula",
    "simulate": "by simulation",
    "replay": "by replaying events over the tables of real nodes",
    "emulate": "with the real code on an emulated network",
    "live": "with real processes over UDP",
}

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "community",
        "The processes interested in one topic; g is the bottom one, d its super-community, a the root.",
    ),
    ("c", "An event is gossiped to ln N + c others of a community of N."),
    ("g", "How many processes of a community are expected to send an event upward: links."),
    (
        "p_sel",
        "The probability that a process is a link for an event: g / N, where it is not given itself.",
    ),
    ("z", "Entries of the super-topic table, the contacts in the super-community."),
    ("a", "To how many of these z a link is expected to send."),
    ("reception", "The share of a community's live processes that an event reached."),
    ("reliability", "The share of events that reached every live process."),
    ("parasite", "An event received by a process that is not interested in it."),
    ("efficiency", "First receptions by all receptions."),
    (
        "round",
        "A hop: the publisher has the event in round 0, and who gets it in round r sends it in round r + 1.",
    ),
    (
        "network",
        "Real nodes that were started together: events on one share its tables, so intervals go by networks.",
    ),
    (
        "replayed",
        "The real tables of a booted network, with who is down, and thousands of events over them by the "
        "paper's rule.",
    ),
    (
        "not refuted",
        "What cannot be shown to hold, as that something never happens, and did not fail here; counted with "
        "what holds.",
    ),
    (
        "no difference",
        "A claim that one is ahead of another does not hold: they differ by less than 5 points, or 10 %.",
    ),
    ("in part", "A claim that holds in some communities and not in others, which are named."),
    ("explained", "A value that differs from the paper's by what is told beside it."),
    (
        "fitted, not comparable",
        "A value from parameters that had to be assumed: neither agreement nor a difference proves anything.",
    ),
    ("as published", "Membership and dissemination of the papers."),
    ("as improved", "Members see to it that enough others hold them, and count each other."),
    ("as shipped", "What a node does that is told nothing else: improved, lazy, sure links."),
)
"""The words of the report, each in a sentence."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything in the report, in the order of the page."""

    lead: str
    headline: Headline
    pareto: Figure | None
    spread: str
    variants: Table
    claims: list[Decided]
    seeds: dict[tuple[object, ...], tuple[int, ...]]
    """By what a row of results was asked for, the seeds of its experiments."""
    tables: list[Table]
    figures: list[Figure]
    real_nodes: list[Table]
    speed: list[Table]
    """The other benchmarks, and what was not run."""
    speed_figures: list[Figure]
    provenance: tuple[tuple[str, str], ...]
    """How it was made: names and values."""
    comparison: str
    """The command that compares it with another run."""
    costs: Table
    experiments: Table
    """Parameters and seeds."""


def content(material: Material) -> Content:
    """The report of what was gathered."""
    aggregates = material.aggregates
    decided = decide(CLAIMS, aggregates)
    return Content(
        _lead(aggregates, decided),
        headline(aggregates),
        pareto(aggregates),
        spread(material.spread),
        variants_table(aggregates),
        decided,
        seeds_by_setting(material.asked),
        tables(aggregates),
        figures(aggregates),
        [*real_node_tables(aggregates), cross_check(aggregates)],
        speed_tables(material.directory),
        speed_figures(material.directory),
        provenance(material),
        comparison(material),
        cost_table(material.asked),
        experiments_table(material.asked),
    )


def counts(decided: list[Decided]) -> dict[str, int]:
    """How many claims there are of each outcome."""
    found = dict.fromkeys(("holds", "does not hold", "in part", "undecided"), 0)
    for one in decided:
        found[outcome(one)] += 1
    return found


def outcome(one: Decided) -> str:
    """The kind of a verdict: what it is filtered by."""
    if one.verdict.holds is not None:
        return "holds" if one.verdict.holds else "does not hold"
    return "in part" if one.verdict.word else "undecided"


def _lead(aggregates: Aggregates, decided: list[Decided]) -> str:
    found = counts(decided)
    tiers = dict.fromkeys(row.tier for row in aggregates.select())
    how = [words for tier, words in TIER_WORDS.items() if tier in tiers]
    between = Counter(one.verdict.word for one in decided if outcome(one) == "in part")
    words = in_a_sentence([f"{count} {word}" for word, count in between.items()])
    return (
        f"Membership services for CAMCAST side by side, {in_a_sentence(how)}. Of {len(decided)} claims of "
        f"the paper {found['holds']} hold here, {found['does not hold']} do not and {found['undecided']} "
        f"stay undecided{f'; in between: {words}' if words else ''}."
    )
