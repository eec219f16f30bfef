"""The first screen: which mode when. The modes with default settings side by side, and an answer in words.

The winner of a row is marked only where it is decided against all others, by the rules of claims: five
networks or more, and a difference whose interval leaves out zero and is not within the margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import Part, exceeds
from bench.intervals import FEWEST
from bench.report.table import digits, in_a_sentence, per_cent, sizes_words
from bench.results import SHARES, WHOLE
from bench.suites.built_in import COMPARED, DEFAULT, DEFAULTS, MODES, variant

SHIPPED = variant("shipped")
NEEDS = {"unstructured": "where every node can be told a member of its topic"}
"""What a mode asks for."""
ONE_ADDRESS = "where a node is told one address of any other, and the DHT finds the rest"
"""What the others ask for."""
NO_DIFFERENCE = "no difference"


@dataclass(frozen=True, slots=True)
class Question:
    """A row of the first table; of a share more is better, of anything else less."""

    words: str
    metric: str
    gain: str = ""
    """What the mode that is ahead has, for the answer."""
    crashed: bool = False
    """Asked after a share of the processes has crashed."""


QUESTIONS = (
    Question("events that reach everyone", "reliability"),
    Question("the same after {} % crashed", "reliability", crashed=True),
    Question(
        "time to the last delivery, p50 / p99", "seconds", "the shortest time to the last delivery"
    ),
    Question("messages an event", "messages_inside"),
    Question("bytes an event", "event_bytes", "the fewest bytes an event"),
    Question("datagrams to join, a node", "join_datagrams", "the fewest datagrams to join"),
    Question("datagrams at rest, a node-second", "rest_datagrams"),
    Question("bytes at rest, a node-second", "rest_bytes", "the fewest bytes at rest"),
    Question(
        "time to repair after {} % crashed",
        "repair_seconds",
        "the quickest repair after crashes",
        True,
    ),
    Question("contacts a process keeps, mean", "table_entries"),
    Question("contacts a process keeps, most", "largest_table"),
    Question("unevenness of tables (uniform draws: 1)", "uniformity"),
)


def value_text(row: Aggregate) -> str:
    """A value as the first table has it: of times p50 and p99, where they are known."""
    if row.metric in SHARES:
        return f"{per_cent(row.value)} %"
    if row.metric == "repair_seconds":
        return f"{row.value:.0f} s"
    if row.metric != "seconds":
        return digits(row.value)
    if row.p50 is None or row.p99 is None:
        return f"{_milliseconds(row.value)} ms"
    return f"{_milliseconds(row.p50)} / {_milliseconds(row.p99)} ms"


def interval_text(row: Aggregate) -> str:
    """The interval below it; nothing where there is none."""
    interval = row.interval
    if not interval.is_bounded or interval.low == interval.high:
        return ""
    write = {"seconds": _milliseconds, "repair_seconds": "{:.0f}".format}.get(row.metric, digits)
    write = per_cent if row.metric in SHARES else write
    mean = "mean " if row.metric == "seconds" else ""
    return f"{mean}{write(interval.low)} to {write(interval.high)}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One mode's value in a row of the first table."""

    text: str
    interval: str
    is_best: bool


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    words: str
    cells: tuple[Cell, ...]
    verdict: str
    """Who is ahead, or that nobody is, or that it is not decided."""
    behind: tuple[Aggregate, ...]
    """What each cell was computed from."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What the first screen says."""

    answer: list[str]
    modes: tuple[str, ...]
    rows: tuple[HeadlineRow, ...]
    note: str


def headline(aggregates: Aggregates) -> Headline:
    """From emulated nodes as shipped, with default parameters; empty where there are none."""
    asked = [(question, _found(aggregates, question)) for question in QUESTIONS]
    rows = tuple(_row(question, found) for question, found in asked if found)
    if not rows:
        return Headline(_nothing(), (), (), "")
    some = next(row for _, found in asked for row in found.values())
    networks = min(len(row.networks) for _, found in asked for row in found.values())
    note = (
        f"Emulated nodes as shipped: {sizes_words(some.sizes)} processes in three communities, "
        f"c = {some.c:g}, g = {some.g:g}, a = {some.a:g}, z = {some.z}, nothing lost, 5 to 50 ms between two "
        f"hosts; {networks} networks a mode, five events of each publisher drawn. At rest: 15 to "
        "25 s after the last join. Bold: better than all "
        "others, decided. No difference: within 5 points of a share, within 10 % of anything else. "
        "Below each value its interval, which holds over all looks together (95 %)."
    )
    modes = tuple(next(found for _, found in asked if found))
    return Headline(_answer(aggregates), modes, rows, note)


def _nothing() -> list[str]:
    return ["No network of real nodes with default settings has been run: camcast bench run quick."]


def _found(aggregates: Aggregates, question: Question) -> dict[str, Aggregate]:
    """By mode, in the setting with the most networks; after crashes, with the largest share."""
    rows = [
        row
        for row in aggregates.select(
            figure=DEFAULT, tier="emulate", metric=question.metric, community=WHOLE, **SHIPPED
        )
        if (row.failed > 0) == question.crashed and row.c == DEFAULTS["c"]
    ]
    settings: dict[tuple[object, ...], dict[str, Aggregate]] = {}
    for row in rows:
        settings.setdefault((row.failed, row.sizes), {})[row.mode] = row
    complete = [found for found in settings.values() if set(found) >= set(MODES)]
    if not complete:
        return {}
    wanted = [found for found in complete if not question.crashed or _is_near(found, 0.3)]
    best = max(wanted or complete, key=lambda found: min(len(r.networks) for r in found.values()))
    return {mode: best[mode] for mode in COMPARED if mode in best}


def _is_near(found: dict[str, Aggregate], failed: float) -> bool:
    return all(abs(row.failed - failed) < 1e-9 for row in found.values())


def _row(question: Question, found: dict[str, Aggregate]) -> HeadlineRow:
    words = question.words.format(f"{100 * found[MODES[0]].failed:g}")
    winner, verdict = _winner(question, found)
    cells = tuple(
        Cell(value_text(row), interval_text(row), mode == winner) for mode, row in found.items()
    )
    return HeadlineRow(words, cells, verdict, tuple(found.values()))


def _winner(question: Question, found: dict[str, Aggregate]) -> tuple[str | None, str]:
    """The mode that is ahead of all others, and what is to be said of the row."""
    if min(len(row.networks) for row in found.values()) < FEWEST:
        return None, f"not decided: fewer than {FEWEST} networks"
    parts = {(a, b): _ahead(question, found[a], found[b]) for a, b in permutations(found, 2)}
    others = {mode: [other for other in found if other != mode] for mode in found}
    for mode in found:
        if all(parts[mode, other].outcome for other in others[mode]):
            return mode, f"{mode} ahead"
    if all(part.is_alike for part in parts.values()):
        return None, NO_DIFFERENCE
    for mode in found:
        if all(parts[other, mode].outcome for other in others[mode]):
            return None, f"{mode} behind"
    first = [
        mode
        for mode in found
        if all(parts[mode, other].outcome or parts[mode, other].is_alike for other in others[mode])
    ]
    rest = [mode for mode in found if mode not in first]
    if first and rest and all(parts[mode, other].outcome for mode in first for other in rest):
        return None, f"{' and '.join(first)} ahead"
    return None, "not decided"


def _ahead(question: Question, one: Aggregate, other: Aggregate) -> Part:
    pair = (one, other) if question.metric in SHARES else (other, one)
    return exceeds(f"{one.mode} ahead of {other.mode}", *pair)


# The answer in words.


def _answer(aggregates: Aggregates) -> list[str]:
    """The answer, first in one sentence, then which mode to take when; each from what is decided."""
    asked = [(question, found) for question in QUESTIONS if (found := _found(aggregates, question))]
    modes = dict.fromkeys(mode for _, found in asked for mode in found)
    gains: dict[str, list[str]] = {mode: [] for mode in modes}
    ahead: set[str] = set()
    sentences = []
    for question, found in asked:
        if question.metric == "reliability" and not question.crashed:
            sentences.append(_reliability(question, found))
        winner, _ = _winner(question, found)
        if winner:
            ahead.add(winner)
            if question.gain:
                gains[winner].append(f"{question.gain} ({_against(found, winner)})")
    for mode, own in gains.items():
        if own:
            where = NEEDS.get(mode, ONE_ADDRESS)
            sentences.append(f"Take {mode} {where}, for {in_a_sentence(own)}.")
    behind = [mode for mode in modes if mode not in ahead]
    if behind and ahead:
        verb = "is" if len(behind) == 1 else "are"
        sentences.append(
            f"{in_a_sentence(behind).capitalize()} {verb} ahead of all others in no row of the table."
        )
    return sentences or _nothing()


def _reliability(question: Question, found: dict[str, Aggregate]) -> str:
    winner, verdict = _winner(question, found)
    least = min(found.values(), key=lambda row: row.value)
    if winner:
        return (
            f"{winner.capitalize()} reaches everyone most often: {value_text(found[winner])} of the events, "
            f"against {value_text(least)} in {least.mode} mode."
        )
    share = value_text(least) if least.value == 1 else f"at least {value_text(least)}"
    if verdict == NO_DIFFERENCE:
        return (
            f"All modes deliver alike: each reached everyone in {share} of the events, so choose by what "
            "they cost and need."
        )
    return f"Each mode reached everyone in {share} of the events; which one does so most often is {verdict}."


def _against(found: dict[str, Aggregate], mode: str) -> str:
    """The mode's value, and from where to where the others' are."""
    others = sorted((row for m, row in found.items() if m != mode), key=lambda row: row.value)
    ends = dict.fromkeys(value_text(row) for row in (others[0], others[-1]))
    return f"{value_text(found[mode])}, others {' to '.join(ends)}"
