"""Which mode when: the modes side by side where it is hardest, and what the results choose between them."""

from __future__ import annotations

from dataclasses import dataclass

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.claims.comparison import FEWEST_NETWORKS, below
from bench.intervals import Interval
from bench.report.table import Table, in_words
from bench.suites.settings import MODES

NEEDS = (
    "What they need is no result: unstructured no DHT, only known gateways; semi-structured and structured a "
    "DHT that finds the contacts, from which structured also draws its topic tables."
)


@dataclass(frozen=True, slots=True)
class Question:
    """What decides between the modes, and where it is asked."""

    figure: str
    varies: str
    """The parameter whose hardest value is taken: the smallest p_sel, the largest share that failed."""
    metric: str
    words: str
    """With a place for that value."""
    more_is_better: bool = True


QUESTIONS = (
    Question("figures-19-28", "p_sel", "reception", "reception, few links upward (p_sel = {})"),
    Question("figures-19-28", "p_sel", "reliability", "reliability, few links upward (p_sel = {})"),
    Question("crashes", "failed", "reception", "reception, {} % crashed, tables repaired"),
    Question("churn", "failed", "reception", "reception, {} % change every second"),
    Question(
        "figures-19-28", "p_sel", "rounds", "rounds to the last reception (p_sel = {})", False
    ),
    Question("figures-19-28", "p_sel", "messages_inside", "messages an event (p_sel = {})", False),
    Question("crashes", "failed", "table_entries", "contacts a process keeps, {} % crashed", False),
)


def modes_table(aggregates: Aggregates) -> Table:
    """A row for each question that was measured, from emulated nodes alone."""
    rows = []
    for question in QUESTIONS:
        found = _hardest(aggregates, question)
        if found:
            share = question.metric in ("reception", "reliability")
            cells = (in_words(found.get(mode), share=share) for mode in MODES)
            rows.append((_asked(question, found), *cells))
    return Table("", ("emulated", *MODES), tuple(rows))


def advice(aggregates: Aggregates) -> list[str]:
    """For each question the modes that are ahead; then what shows no difference, and what is no result."""
    sentences, alike, networks = [], [], []
    for question in QUESTIONS:
        found = _hardest(aggregates, question)
        if len(found) < len(MODES):
            continue
        networks.append(min(row.networks for row in found.values()))
        behind = _behind(question, found)
        if behind:
            asked = _asked(question, found)
            ahead = " or ".join(mode for mode in MODES if mode not in behind)
            sentences.append(f"{asked[0].upper()}{asked[1:]}: {ahead}, not {' or '.join(behind)}.")
        else:
            alike.append(_asked(question, found))
    if alike:
        sentences.append(f"No mode is ahead, as the intervals overlap, in {'; '.join(alike)}.")
    if networks and min(networks) < FEWEST_NETWORKS:
        sentences.append(
            f"Fewer than {FEWEST_NETWORKS} networks a mode are behind some of this, which is not enough to "
            "choose by: camcast bench run paper."
        )
    return [*sentences, NEEDS]


def _behind(question: Question, found: dict[str, Aggregate]) -> list[str]:
    """The modes whose interval lies on the wrong side of another's."""
    return [
        mode
        for mode in MODES
        if any(below(*_in_order(question, found[mode], other)) for other in found.values())
    ]


def _in_order(question: Question, row: Aggregate, other: Aggregate) -> tuple[Interval, Interval]:
    """Which has to be below which for the first one to be behind."""
    pair = (row.interval, other.interval)
    return pair if question.more_is_better else (pair[1], pair[0])


def _asked(question: Question, found: dict[str, Aggregate]) -> str:
    value = getattr(next(iter(found.values())), question.varies)
    return question.words.format(f"{value if question.varies == 'p_sel' else 100 * value:g}")


def _hardest(aggregates: Aggregates, question: Question) -> dict[str, Aggregate]:
    """Each mode's value at the hardest place that there is, in the setting with most networks behind it."""
    rows = [
        row
        for row in aggregates.select(
            figure=question.figure,
            tier="emulate",
            protocol="camcast",
            metric=question.metric,
            community=WHOLE,
        )
        if getattr(row, question.varies) is not None
    ]
    values = sorted({getattr(row, question.varies) for row in rows})
    if not values:
        return {}
    hardest = values[0] if question.varies == "p_sel" else values[-1]
    found: dict[str, Aggregate] = {}
    for row in rows:
        if getattr(row, question.varies) == hardest:
            known = found.setdefault(row.mode, row)
            if (row.networks, row.count) > (known.networks, known.count):
                found[row.mode] = row
    return found
